//! Weighted sums of values.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, TensorMetadata};
use burn::tensor::{Tensor, assert_shape};

use super::fill_padding::fill_rows_without_key;
use super::key_heads::{assert_divides, repeated};
use super::masked::{Masked, Split};
use super::{AttentionOps, ResolvedMask};
use crate::Mask;
use crate::checks::{Argument, assert_together};

/// Inputs of [`AttentionOps::weighted_sum`].
#[derive(Clone, Debug, ExtensionType)]
pub struct WeightedSumInputs<B: Backend> {
    /// `[batch, heads, queries, keys]`
    pub weights: FloatTensor<B>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
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
    assert_together(
        "weighted_sum",
        Argument::floats("weights", &weights),
        others,
    );
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

/// The definition.
pub(super) fn composed<B: Backend>(inputs: WeightedSumInputs<B>) -> FloatTensor<B> {
    let WeightedSumInputs {
        weights,
        values,
        mask,
    } = inputs;
    let [_, heads, _, num_keys] = weights.shape().dims();
    let masked = Masked::<B>::new(mask.clone(), num_keys, &weights);
    let values = masked.fill_padding(repeated::<B>(values, heads));
    if !masked.differs_per_query() {
        return fill_rows_without_key::<B>(B::float_matmul(weights, values), &mask, num_keys);
    }
    // The product of the finite part serves every query that attends to finite values only; the others take the product
    // of the values as they are.
    let weights = masked.fill(weights, 0.0);
    let split = Split::<B>::new(values.clone());
    let reached = masked.reached_by(split.is_not_finite);
    let clean = B::float_matmul(weights.clone(), split.finite);
    let raw = B::float_matmul(weights, values);
    fill_rows_without_key::<B>(B::float_mask_where(clean, reached, raw), &mask, num_keys)
}
