//! Weighted sums of values.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, TensorMetadata};

use super::fill_padding::fill_rows_without_key;
use super::key_heads::repeated;
use super::mask::ResolvedMask;
use super::masked::{Masked, Split};

/// Inputs of [`AttentionOps::weighted_sum`](super::AttentionOps::weighted_sum).
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

/// The definition.
pub(super) fn composed<B: Backend>(inputs: WeightedSumInputs<B>) -> FloatTensor<B> {
    let (weights, values, mask) = (inputs.weights, inputs.values, inputs.mask);
    let [_, heads, _, num_keys] = weights.shape().dims();
    let masked = Masked::<B>::new(mask.clone(), num_keys, &weights);
    let values = masked.fill_padding(repeated::<B>(values, heads));
    if !masked.differs_per_query() {
        return fill_rows_without_key::<B>(B::float_matmul(weights, values), &mask, num_keys);
    }
    // The product with the finite part serves every query that attends to finite values only; other queries use the
    // product with the values as they are.
    let weights = masked.fill(weights, 0.0);
    let split = Split::<B>::new(values.clone());
    let reached = masked.reached_by(split.is_not_finite);
    let clean = B::float_matmul(weights.clone(), split.finite);
    let raw = B::float_matmul(weights, values);
    fill_rows_without_key::<B>(B::float_mask_where(clean, reached, raw), &mask, num_keys)
}
