//! Keys that every query attends to beside a call's own.

use burn::tensor::{Device, Tensor};

use super::fill_masked;
use super::modifiers::{Modifiers, along_diagonals};
use super::sizes::Sizes;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::ops::ResolvedMask;

/// A memory with further keys and values behind its own, `[batch or 1, key_heads, n, _]`, its sizes, and its modifiers,
/// which add nothing to their scores but `bias`, `[batch or 1, heads or 1, 1, n]`. They were checked to fit.
pub(crate) fn with_extra_keys(
    memory: &Memory,
    sizes: Sizes,
    mut modifiers: Modifiers,
    [keys, values]: [Tensor<4>; 2],
    bias: Option<Tensor<4>>,
) -> (Memory, Sizes, Modifiers) {
    let Sizes {
        batch,
        key_heads,
        num_queries,
        num_keys,
        ..
    } = sizes;
    let [_, _, number, _] = keys.dims();
    if let Some(relative) = modifiers.relative_bias.take().filter(|_| num_keys > 0) {
        modifiers.add_bias(along_diagonals(relative, num_queries));
    }
    modifiers.bias = side_by_side(modifiers.bias, bias, [num_keys, number]);
    let device = &memory.keys.device();
    let mask = extended(&memory.mask, sizes.scores(), number, device);
    let joined = |own: Tensor<4>, extra: Tensor<4>| {
        let [_, _, _, size] = extra.dims();
        let extra = extra.expand([batch, key_heads, number, size]);
        match num_keys {
            0 => extra,
            _ => Tensor::cat(vec![own, extra], 2),
        }
    };
    let keys = joined(memory.read_keys(), keys);
    let values = joined(memory.read_values(), values);
    let memory = Memory::of_cleared(keys, values, mask);
    (memory, sizes.with_keys(num_keys + number), modifiers)
}

/// The bias of the keys, then of the extra keys, `numbers` of each; an absent one is 0; none if both are absent.
fn side_by_side(
    own: Option<Tensor<4>>,
    of_extra: Option<Tensor<4>>,
    numbers: [usize; 2],
) -> Option<Tensor<4>> {
    let both = [own, of_extra];
    let first = both.iter().flatten().next()?;
    let (device, dtype) = (first.device(), first.dtype());
    let common = |axis: usize| {
        let sizes = both.iter().flatten().map(|bias| bias.dims()[axis]);
        sizes.max().unwrap_or(1)
    };
    let [batch, heads, rows] = [0, 1, 2].map(common);
    let parts = both.into_iter().zip(numbers);
    let parts = parts
        .filter(|(_, number)| *number > 0)
        .map(|(bias, number)| {
            let shape = [batch, heads, rows, number];
            match bias {
                Some(bias) => bias.cast(dtype).expand(shape),
                None => Tensor::zeros(shape, (&device, dtype)),
            }
        });
    Some(Tensor::cat(parts.collect(), 3))
}

/// The mask of scores `[batch, heads, queries, keys]` where `number` more keys follow, which every query attends to.
fn extended(mask: &Mask, scores: [usize; 4], number: usize, device: &Device) -> Mask {
    let is_none = matches!(mask.resolve(scores, device), ResolvedMask::None);
    let [batch, heads, queries, num_keys] = scores;
    if is_none || num_keys == 0 {
        return Mask::none();
    }
    if scores.contains(&0) {
        return mask.clone();
    }
    let masked = fill_masked(Tensor::zeros(scores, device), mask, 1.0);
    let attended = Tensor::zeros([batch, heads, queries, number], device);
    Mask::drop(Tensor::cat(vec![masked, attended], 3).greater_elem(0.5))
}
