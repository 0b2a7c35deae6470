//! The space of a cache.

use std::ops::Range;

use burn::tensor::Tensor;

use crate::owner::Owner;

/// The keys and values themselves.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// `[batch, key_heads, space, size]`, as the scoring function projected them.
    pub(super) keys: Tensor<4>,
    /// `[batch, key_heads, space, value_size]`
    pub(super) values: Tensor<4>,
    /// The scoring function that projected the keys.
    pub(super) owner: Owner,
}

/// The tokens of an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Example {
    /// Tokens that were there, before those that are kept.
    pub(super) evicted: usize,
    pub(super) kept: usize,
}

/// Writes the tokens of `new` behind those that are kept.
pub(super) fn write(
    stored: &mut Tensor<4>,
    new: &Tensor<4>,
    before: &[Example],
    tokens: &[Range<usize>],
    is_even: bool,
) {
    let [batch, heads, num_rows, size] = new.dims();
    if batch * heads * num_rows * size == 0 {
        return;
    }
    // Nobody else has it while it is written, so that it is written in place.
    let placeholder = Tensor::empty([1, 1, 1, 1], &new.device());
    let mut all = std::mem::replace(stored, placeholder);
    if is_even {
        let first = before[0].kept;
        let slices = [0..batch, 0..heads, first..first + num_rows, 0..size];
        all = all.slice_assign(slices, new.clone());
    } else {
        for (b, (of, tokens)) in before.iter().zip(tokens).enumerate() {
            if !tokens.is_empty() {
                let part = new
                    .clone()
                    .slice([b..b + 1, 0..heads, tokens.clone(), 0..size]);
                let slices = [b..b + 1, 0..heads, of.kept..of.kept + tokens.len(), 0..size];
                all = all.slice_assign(slices, part);
            }
        }
    }
    *stored = all;
}
