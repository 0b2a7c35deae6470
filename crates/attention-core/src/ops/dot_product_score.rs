//! Scaled dot products of all pairs.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, TensorMetadata};

use super::key_heads::repeated;
use super::mask::ResolvedMask;
use super::masked::{Masked, Split, broadcast_or};

/// Inputs of [`AttentionOps::dot_product_score`](super::AttentionOps::dot_product_score).
#[derive(Clone, Debug, ExtensionType)]
pub struct DotProductScoreInputs<B: Backend> {
    /// `[batch, heads, queries, size]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, size]`
    pub keys: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The factor on every score.
    pub scale: f64,
}

/// The definition.
pub(super) fn composed<B: Backend>(inputs: DotProductScoreInputs<B>) -> FloatTensor<B> {
    let (queries, keys) = (inputs.queries, inputs.keys);
    let [_, heads, _, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let masked = Masked::<B>::new(inputs.mask, num_keys, &queries);
    let keys = masked.fill_padding(repeated::<B>(keys, heads));
    let queries = B::float_mul_scalar(queries, inputs.scale.into());
    let scores = if masked.differs_per_query() {
        // Scores of non-finite rows are computed from the rows as they are. Gradients come from products of the finite
        // parts: the gradient of a masked pair is 0 and stays 0.
        let raw = B::float_matmul(
            B::float_detach(queries.clone()),
            B::float_transpose(B::float_detach(keys.clone())),
        );
        let (queries, keys) = (Split::<B>::new(queries), Split::<B>::new(keys));
        let of_queries = B::bool_any_dim(queries.is_not_finite, 3);
        let of_keys = B::bool_swap_dims(B::bool_any_dim(keys.is_not_finite, 3), 2, 3);
        let is_finite = B::bool_not(broadcast_or::<B>(of_queries, of_keys));
        let clean = B::float_matmul(queries.finite, B::float_transpose(keys.finite));
        let rest = B::float_sub(raw, B::float_detach(clean.clone()));
        B::float_add(clean, B::float_mask_fill(rest, is_finite, 0.0.into()))
    } else {
        B::float_matmul(queries, B::float_transpose(keys))
    };
    masked.fill(scores, 0.0)
}
