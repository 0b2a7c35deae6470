//! Keys that every query attends to beside a call's own.

use burn::tensor::Tensor;

use super::modifiers::{Modifiers, along_diagonals};
use super::sizes::Sizes;
use crate::memory::Memory;

/// A memory with further keys and values in front of its own, `[batch or 1, key_heads, n, _]`, its sizes, and its modifiers,
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
    modifiers.bias = side_by_side(bias, modifiers.bias, [number, num_keys]);
    let device = &memory.keys.device();
    let mask = memory.mask.behind(number, sizes.scores(), device);
    let joined = |own: Tensor<4>, extra: Tensor<4>| {
        let [_, _, _, size] = extra.dims();
        let extra = extra.expand([batch, key_heads, number, size]);
        match num_keys {
            0 => extra,
            _ => Tensor::cat(vec![extra, own], 2),
        }
    };
    let keys = joined(memory.read_keys(), keys);
    let values = joined(memory.read_values(), values);
    let memory = Memory::of_cleared(keys, values, mask);
    (memory, sizes.with_keys(num_keys + number), modifiers)
}

/// The bias of the extra keys, then of the others, `numbers` of each; an absent one is 0; none if both are absent.
fn side_by_side(
    of_extra: Option<Tensor<4>>,
    own: Option<Tensor<4>>,
    numbers: [usize; 2],
) -> Option<Tensor<4>> {
    let first = own.as_ref().or(of_extra.as_ref())?;
    let (device, dtype) = (first.device(), first.dtype());
    let both = [of_extra, own];
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

/// Weights or scores `[batch, heads, queries, number + keys]` with the extra keys last, as results have them.
pub(crate) fn extra_keys_last(pairs: Tensor<4>, number: usize) -> Tensor<4> {
    let [_, _, _, all] = pairs.dims();
    if all == number {
        return pairs;
    }
    let own = pairs.clone().narrow(3, number, all - number);
    Tensor::cat(vec![own, pairs.narrow(3, 0, number)], 3)
}
