//! The streaming kernels: attention without its matrix of scores.
//!
//! Keys come in tiles. Per query the forward pass keeps a running maximum `m` of the scores, a running sum `l` of
//! `e^(s - m)` and a running weighted sum of values, both rescaled when the maximum grows (Milakov & Gimelshein 2018,
//! Dao et al. 2022). What remains is the context and the logarithm of the sum, `lse = m + ln l`, from which the
//! backward pass computes the weights of a tile again: `p = e^(s - lse)`.

mod backward;
mod forward;
mod pack;
mod pool;
mod score;
mod task;
mod tile;

use crate::{Dropout, Mask, Real, Rows};

pub(crate) use backward::{Gradients, Outputs, backward};
pub(crate) use forward::forward;
pub(crate) use pack::{
    FiniteRows, clear_rows, find_non_finite, multiply_panels, pack_panels, pack_rows, padded,
};
pub(crate) use score::{BLOCK, PANEL, Pass, Place, STRIDE, Sizes, TILE, TileScore};

/// What is computed from any score.
#[derive(Debug)]
pub(crate) struct Attention<'a, E, T> {
    pub score: &'a T,
    /// `[batch, key heads, keys, value_size]`
    pub values: Rows<'a, E>,
    /// Added to the scores of each key, `[batch, heads or 1, 1, keys]`. Minus infinity hides a key.
    pub bias: Option<Rows<'a, E>>,
    pub mask: &'a Mask<'a>,
    pub dropout: Option<Dropout>,
}

impl<E: Real, T: TileScore<E>> Attention<'_, E, T> {
    /// The sizes of the score.
    ///
    /// # Panics
    /// If values or bias do not fit them.
    fn checked_sizes(&self) -> Sizes {
        let sizes = self.score.sizes();
        let Sizes {
            batch,
            heads,
            key_heads,
            keys,
            ..
        } = sizes;
        assert!(
            key_heads > 0 && heads.is_multiple_of(key_heads) || heads == 0,
            "attention: expected key heads that divide {heads} heads, got {key_heads}"
        );
        let [.., value_size] = self.values.shape();
        let expected = [batch, key_heads, keys, value_size];
        let got = self.values.shape();
        assert!(
            got == expected,
            "attention: expected values {expected:?}, got {got:?}"
        );
        if let Some(bias) = self.bias {
            let got = bias.shape();
            let expected = [batch, if got[1] == 1 { 1 } else { heads }, 1, keys];
            assert!(
                got == expected,
                "attention: expected a bias {expected:?}, got {got:?}"
            );
        }
        sizes
    }
}

/// # Panics
/// If a slice has not as many numbers as its shape.
fn assert_len<const N: usize>(name: &str, got: usize, shape: [usize; N]) {
    let expected: usize = shape.iter().product();
    assert!(
        got == expected,
        "attention: {name} {shape:?} expected {expected} numbers, got {got}"
    );
}
