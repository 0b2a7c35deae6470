//! Scaled dot products of all pairs.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, TensorMetadata};
use burn::tensor::{Tensor, assert_shape};

use super::key_heads::{assert_divides, repeated};
use super::masked::{Masked, Split, broadcast_or};
use super::{AttentionOps, ResolvedMask};
use crate::Mask;
use crate::checks::{Argument, assert_together};

/// Inputs of [`AttentionOps::dot_product_score`].
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

/// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]`, and 0 where masked.
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`, keys `[batch, key_heads, keys, size]`
/// - result `[batch, heads, queries, keys]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together.
pub fn dot_product_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    mask: &Mask,
    scale: f64,
) -> Tensor<4> {
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, key_heads, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, key_heads, num_keys, size]);
    assert_divides("dot_product_score", key_heads, heads);
    let others = [Argument::floats("keys", &keys)];
    assert_together(
        "dot_product_score",
        Argument::floats("queries", &queries),
        others,
    );
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || size == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let inputs = DotProductScoreInputs {
        mask: mask.resolve(shape, &queries.device()),
        queries: queries.into_dispatch(),
        keys: keys.into_dispatch(),
        scale,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::dot_product_score(inputs))
}

/// The definition.
pub(super) fn composed<B: Backend>(inputs: DotProductScoreInputs<B>) -> FloatTensor<B> {
    let DotProductScoreInputs {
        queries,
        keys,
        mask,
        scale,
    } = inputs;
    let [_, heads, _, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let masked = Masked::<B>::new(mask, num_keys, &queries);
    let keys = masked.fill_padding(repeated::<B>(keys, heads));
    let queries = B::float_mul_scalar(queries, scale.into());
    let scores = if masked.differs_per_query() {
        // Scores of rows that are not finite come from the rows as they are. The products whose gradients are taken are
        // those of the finite parts: a masked pair has a gradient of 0, which they pass on as 0.
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
