//! From scores to the context: softmax, dropout and the weighted sum.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::in_wide;

use super::key_heads::assert_divides;
use super::keys_and_values::KeysAndValues;
use crate::mask::Mask;
use crate::ops::{
    AttentionOps, MaskedSoftmaxInputs, StepContextInputs, WeightedSumInputs, dropped,
};
use crate::rank::Sequences;

/// Softmax over the last axis, restricted to the keys that `mask` keeps.
///
/// A masked weight is exactly 0 and the weights of a row with at least one unmasked key sum to 1. A fully masked
/// row is all 0; so are its gradients. (D2L's `masked_softmax` fills with `-1e6` and would give such a row
/// uniform weights.) A score of `-inf` counts as masked.
///
/// *Dive into Deep Learning*, "Attention Scoring Functions", Masked Softmax Operation.
///
/// # Shapes
/// - scores `[batch, queries, keys]` or `[batch, heads, queries, keys]`
/// - result: the shape of `scores`
///
/// # Panics
/// If the mask does not fit the scores.
///
/// ```
/// use attention_core::{Mask, masked_softmax};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let scores = Tensor::<3>::zeros([2, 2, 4], &device);
/// let lens = Tensor::<1, Int>::from_ints([2, 3], &device);
/// let weights = masked_softmax(scores, &Mask::valid_lens(lens));
/// let weights = weights.try_into_vec_as::<f32>().unwrap();
/// assert_eq!(weights[..4], [0.5, 0.5, 0.0, 0.0]);
/// ```
pub fn masked_softmax<const D: usize>(scores: Tensor<D>, mask: &Mask) -> Tensor<D> {
    let scores = Sequences::new(scores);
    let mask = mask.resolve(scores.dims(), &scores.device());
    if scores.dims().contains(&0) {
        return scores.into_tensor();
    }
    let inputs = MaskedSoftmaxInputs {
        scores: scores.into_tensor::<4>().into_dispatch(),
        mask,
    };
    let weights = <Dispatch as AttentionOps>::masked_softmax(inputs);
    Sequences::of_dispatch(weights).into_tensor()
}

/// The part of each query's weight that no key got, `1 - sum_j weights[.., i, j]`: the weight of sinks and of a zero
/// key. PyTorch's `add_zero_attn` returns it as a last column.
///
/// # Shapes
/// - weights `[.., queries, keys]`, result `[.., queries, 1]`
pub fn weight_of_no_key<const D: usize>(weights: Tensor<D>) -> Tensor<D> {
    in_wide(weights, |weights| -weights.sum_dim(D - 1) + 1.0)
}

/// Dropout on weights, after softmax: each is dropped with `probability` or scaled by `1 / (1 - probability)`.
pub(crate) fn drop_weights(weights: Tensor<4>, probability: f64) -> Tensor<4> {
    let weights = weights.into_dispatch();
    Tensor::from_dispatch(dropped::<Dispatch>(weights, probability))
}

/// `context[b,n,i,:] = sum_j weights[b,n,i,j] values[b,n,j,:]` over the keys that are not masked.
///
/// # Shapes
/// - weights `[batch, heads, queries, keys]`, values `[batch, key_heads, keys, value_size]`
/// - result `[batch, heads, queries, value_size]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together.
pub fn weighted_sum(weights: Tensor<4>, values: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let [batch, heads, num_queries, num_keys] = weights.dims();
    let [_, key_heads, _, value_size] = values.dims();
    assert_shape!(values, [batch, key_heads, num_keys, value_size]);
    assert_divides("weighted_sum", key_heads, heads);
    let others = [Argument::floats("values", &values)];
    let first = Argument::floats("weights", &weights);
    assert_together("weighted_sum", first, others);
    if weights.dims().contains(&0) || value_size == 0 {
        let shape = [batch, heads, num_queries, value_size];
        return Tensor::zeros(shape, (&values.device(), values.dtype()));
    }
    let inputs = WeightedSumInputs {
        mask: mask.resolve(weights.dims(), &weights.device()),
        weights: weights.into_dispatch(),
        values: values.into_dispatch(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::weighted_sum(inputs))
}

/// The context of a step, `[batch, 1, 1, value_size]`, from weights `[batch, 1, 1, keys]` in the type of the values.
pub(crate) fn step_context(weights: Tensor<4>, rows: &KeysAndValues) -> Tensor<4> {
    if rows.values.dims().contains(&0) {
        return weighted_sum(weights, rows.read_values().into_tensor(), &rows.mask);
    }
    let inputs = StepContextInputs {
        mask: rows.mask.resolve(weights.dims(), &weights.device()),
        weights: weights.into_dispatch(),
        values: rows.read_values().into_tensor::<4>().into_dispatch(),
        shared_values: rows.shared_gradients().map(|shared| shared.values),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::step_context(inputs))
}
