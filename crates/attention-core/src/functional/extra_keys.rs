//! Keys that every query attends to, beside the keys of a call.

use burn::tensor::Tensor;

use super::keys_and_values::KeysAndValues;
use super::modifiers::along_diagonals;
use super::options::AttentionOptions;
use super::sizes::Sizes;
use crate::rank::Sequences;

/// Keys and values with extra ones in front, `[batch or 1, key_heads, n, _]`, their sizes, and the options; only
/// `bias`, `[batch or 1, heads or 1, queries or 1, n]`, is added to the scores of extra keys. All arguments were checked
/// to fit.
pub(crate) fn with_extra_keys(
    rows: &KeysAndValues,
    sizes: Sizes,
    mut options: AttentionOptions,
    [keys, values]: [Tensor<4>; 2],
    bias: Option<Tensor<4>>,
) -> (KeysAndValues, Sizes, AttentionOptions) {
    let num_keys = sizes.num_keys;
    let [_, _, number, _] = keys.dims();
    if let Some(relative) = options.relative_bias.take().filter(|_| num_keys > 0) {
        options.add_bias(along_diagonals(relative, sizes.num_queries));
    }
    options.bias = side_by_side(bias, options.bias, [number, num_keys]);
    let device = &rows.keys.device();
    let mask = rows.mask.behind(number, sizes.scores(), device);
    let joined = |own: Sequences, extra: Tensor<4>| {
        let [_, _, _, size] = extra.dims();
        let extra = extra.expand([sizes.batch, sizes.key_heads, number, size]);
        match num_keys {
            0 => extra,
            _ => Tensor::cat(vec![extra, own.into_tensor()], 2),
        }
    };
    let keys = joined(rows.read_keys(), keys);
    let values = joined(rows.read_values(), values);
    let rows = KeysAndValues::new(keys.into(), values.into(), mask);
    (rows, sizes.with_keys(num_keys + number), options)
}

/// The biases of the extra keys, then of the other keys, `numbers` of each: 0 if one is absent; `None` if both are.
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
    let parts = both
        .into_iter()
        .zip(numbers)
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
