//! Keys beside those of a call, which every query attends to.

use burn::tensor::{Device, Tensor, assert_shape};

use super::fill_masked;
use super::modifiers::{Modifiers, along_diagonals};
use crate::ops::ResolvedMask;
use crate::{Mask, Memory};

/// A memory with further keys and values behind its own, `[batch or 1, key_heads, n, _]`, and the modifiers for them,
/// which add nothing to their scores.
///
/// # Panics
/// If shapes or the mask do not fit together.
pub(crate) fn with_extra_keys(
    memory: &Memory,
    mut modifiers: Modifiers,
    [keys, values]: [Tensor<4>; 2],
    [heads, num_queries]: [usize; 2],
) -> (Memory, Modifiers) {
    let [batch, key_heads, num_keys, size] = memory.keys.dims();
    let [_, _, _, value_size] = memory.values.dims();
    let [extra_batch, _, number, _] = keys.dims();
    assert!(
        [1, batch].contains(&extra_batch),
        "extra_keys: {batch} examples or 1 expected, got {extra_batch}"
    );
    assert_shape!(keys, [extra_batch, key_heads, number, size]);
    assert_shape!(values, [extra_batch, key_heads, number, value_size]);
    if let Some(relative) = modifiers.relative_bias.take() {
        modifiers.add_bias(along_diagonals(relative, num_queries));
    }
    modifiers.bias = modifiers.bias.map(|bias| {
        let [of_batch, of_heads, rows, _] = bias.dims();
        let zeros = Tensor::zeros(
            [of_batch, of_heads, rows, number],
            (&bias.device(), bias.dtype()),
        );
        Tensor::cat(vec![bias, zeros], 3)
    });
    let scores = [batch, heads, num_queries, num_keys];
    let mask = extended(&memory.mask, scores, number, &memory.keys.device());
    let joined = |own: Tensor<4>, extra: Tensor<4>| {
        let [_, _, _, size] = own.dims();
        let extra = extra.expand([batch, key_heads, number, size]);
        Tensor::cat(vec![own, extra], 2)
    };
    let keys = joined(memory.read_keys(), keys);
    let values = joined(memory.read_values(), values);
    (Memory::of_cleared(keys, values, mask), modifiers)
}

/// The mask of scores `[batch, heads, queries, keys]` where `number` more keys follow, which every query attends to.
fn extended(mask: &Mask, scores: [usize; 4], number: usize, device: &Device) -> Mask {
    let is_none = matches!(mask.resolve(scores, device), ResolvedMask::None);
    if is_none || scores.contains(&0) {
        return mask.clone();
    }
    let [batch, heads, queries, _] = scores;
    let masked = fill_masked(Tensor::zeros(scores, device), mask, 1.0);
    let attended = Tensor::zeros([batch, heads, queries, number], device);
    Mask::drop(Tensor::cat(vec![masked, attended], 3).greater_elem(0.5))
}
