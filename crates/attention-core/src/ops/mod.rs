//! The narrow door: the operations that a backend may replace by a kernel.
//!
//! [`AttentionOps`] is a Burn backend extension. Each of its methods has a default body that composes Burn's
//! own tensor operations (in `composed.rs`): that body is the definition of the operation, its documentation and
//! the oracle of any kernel. The functions of this module are the same operations on [`Tensor`]s, with shapes
//! checked before anything is dispatched.
//!
//! Axes are always `[batch, heads, queries, keys]`.

mod backends;
mod composed;
mod mask;

pub use mask::MaskPrimitive;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Tensor, assert_shape};

use crate::Mask;

/// Options of [`attention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionOptions {
    /// The factor on every score, `1 / sqrt(query_size)` for scaled dot-product attention.
    pub scale: f64,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
}

/// The operations of attention pooling, one implementation per backend family.
///
/// A masked pair of query and key contributes nothing, whatever its key and value hold.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "cubecl-backend"),
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(feature = "fusion"),
)]
pub trait AttentionOps: Backend {
    /// Zeros the rows of padding, the keys (or values) that no query sees, so that what they hold cannot reach
    /// a gradient through a product.
    ///
    /// # Shapes
    /// - tensor and result `[batch, heads, keys, size]`
    #[fusion(default)]
    fn fill_padding(
        tensor: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
    ) -> FloatTensor<Self> {
        composed::fill_padding::<Self>(tensor, mask)
    }

    /// `score[b,n,i,j] = sum_h weight[h] * tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, heads, keys, num_hiddens]`,
    ///   weight `[num_hiddens]`
    /// - result `[batch, heads, queries, keys]`
    #[fusion(default)]
    fn additive_score(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
    ) -> FloatTensor<Self> {
        composed::additive_score::<Self>(queries, keys, weight, mask)
    }

    /// `score[b,n,i,j] = scale * queries[b,n,i,:] . keys[b,n,j,:]`, and 0 where masked.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, size]`, keys `[batch, heads, keys, size]`
    /// - result `[batch, heads, queries, keys]`
    #[fusion(default)]
    fn dot_product_score(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
        scale: f64,
    ) -> FloatTensor<Self> {
        composed::dot_product_score::<Self>(queries, keys, mask, scale)
    }

    /// Softmax over the keys that each query may see; masked weights and rows without a visible key are 0.
    ///
    /// # Shapes
    /// - scores and result `[batch, heads, queries, keys]`
    #[fusion(default)]
    fn masked_softmax(
        scores: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
    ) -> FloatTensor<Self> {
        composed::masked_softmax::<Self>(scores, mask)
    }

    /// `context[b,n,i,:] = sum_j weights[b,n,i,j] * values[b,n,j,:]` over the visible keys.
    ///
    /// # Shapes
    /// - weights `[batch, heads, queries, keys]`, values `[batch, heads, keys, value_size]`
    /// - result `[batch, heads, queries, value_size]`
    #[fusion(default)]
    fn weighted_sum(
        weights: FloatTensor<Self>,
        values: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
    ) -> FloatTensor<Self> {
        composed::weighted_sum::<Self>(weights, values, mask)
    }

    /// Dot-product attention from queries, keys and values straight to the context:
    /// [`dot_product_score`](Self::dot_product_score), [`masked_softmax`](Self::masked_softmax), dropout and
    /// [`weighted_sum`](Self::weighted_sum).
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, size]`, keys `[batch, heads, keys, size]`,
    ///   values `[batch, heads, keys, value_size]`
    /// - result `[batch, heads, queries, value_size]`
    #[fusion(default)]
    fn attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
        options: AttentionOptions,
    ) -> FloatTensor<Self> {
        composed::attention::<Self>(queries, keys, values, mask, options)
    }
}

/// [`AttentionOps::fill_padding`] on tensors, for `num_queries` queries.
///
/// # Panics
/// If the mask does not fit.
pub fn fill_padding(tensor: Tensor<4>, mask: &Mask, num_queries: usize) -> Tensor<4> {
    let [batch, heads, num_keys, size] = tensor.dims();
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &tensor.device());
    if matches!(mask, MaskPrimitive::None) || batch * heads * num_queries * num_keys * size == 0 {
        return tensor;
    }
    Tensor::from_dispatch(<Dispatch as AttentionOps>::fill_padding(
        tensor.into_dispatch(),
        mask,
    ))
}

/// [`AttentionOps::additive_score`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::additive_score`], or the mask does not fit them.
pub fn additive_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
) -> Tensor<4> {
    let [batch, heads, num_queries, num_hiddens] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, heads, num_keys, num_hiddens]);
    assert_shape!(weight, [num_hiddens]);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let mask = mask.resolve(shape, &queries.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_score(
        queries.into_dispatch(),
        keys.into_dispatch(),
        weight.into_dispatch(),
        mask,
    ))
}

/// [`AttentionOps::dot_product_score`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::dot_product_score`], or the mask does not fit them.
pub fn dot_product_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    mask: &Mask,
    scale: f64,
) -> Tensor<4> {
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, heads, num_keys, size]);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || size == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let mask = mask.resolve(shape, &queries.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::dot_product_score(
        queries.into_dispatch(),
        keys.into_dispatch(),
        mask,
        scale,
    ))
}

/// [`AttentionOps::masked_softmax`] on tensors.
///
/// # Panics
/// If the mask does not fit `scores`.
pub fn masked_softmax(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let mask = mask.resolve(scores.dims(), &scores.device());
    if scores.dims().contains(&0) {
        return scores;
    }
    Tensor::from_dispatch(<Dispatch as AttentionOps>::masked_softmax(
        scores.into_dispatch(),
        mask,
    ))
}

/// [`AttentionOps::weighted_sum`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::weighted_sum`], or the mask does not fit them.
pub fn weighted_sum(weights: Tensor<4>, values: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let [batch, heads, num_queries, num_keys] = weights.dims();
    let [_, _, _, value_size] = values.dims();
    assert_shape!(values, [batch, heads, num_keys, value_size]);
    if weights.dims().contains(&0) || value_size == 0 {
        let shape = [batch, heads, num_queries, value_size];
        return Tensor::zeros(shape, (&values.device(), values.dtype()));
    }
    let mask = mask.resolve(weights.dims(), &weights.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::weighted_sum(
        weights.into_dispatch(),
        values.into_dispatch(),
        mask,
    ))
}

/// [`AttentionOps::attention`] on tensors.
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`, except that a row without a
/// visible key is 0 and that causal masks are aligned bottom-right.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::attention`], the mask does not fit them, or the dropout is not in
/// `[0, 1)`.
pub fn attention(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    mask: &Mask,
    options: AttentionOptions,
) -> Tensor<4> {
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    let [_, _, _, value_size] = values.dims();
    assert_shape!(keys, [batch, heads, num_keys, size]);
    assert_shape!(values, [batch, heads, num_keys, value_size]);
    assert!(
        (0.0..1.0).contains(&options.dropout),
        "attention: dropout expected in [0, 1), got {}",
        options.dropout
    );
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || value_size == 0 {
        let shape = [batch, heads, num_queries, value_size];
        return Tensor::zeros(shape, (&values.device(), values.dtype()));
    }
    if size == 0 {
        let scores = Tensor::zeros(shape, (&queries.device(), queries.dtype()));
        return weighted_sum(masked_softmax(scores, mask), values, mask);
    }
    let mask = mask.resolve(shape, &queries.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::attention(
        queries.into_dispatch(),
        keys.into_dispatch(),
        values.into_dispatch(),
        mask,
        options,
    ))
}
