//! The narrow door: the operations that a backend may replace by a kernel.
//!
//! [`AttentionOps`] is a Burn backend extension. Each of its methods has a default body that composes Burn's
//! own tensor operations (in `composed.rs`): that body is the definition of the operation, its documentation and
//! the oracle of any kernel. The functions of this module are the same operations on [`Tensor`]s, with shapes
//! checked before anything is dispatched.
//!
//! Axes are always `[batch, heads, queries, keys]`.

#[cfg(feature = "autodiff")]
mod autodiff;
mod backends;
mod composed;
mod host;
#[cfg(feature = "host")]
mod kernels;
mod mask;
mod share;

pub use host::HostBackend;
pub use mask::MaskPrimitive;
pub use share::{GradientSlot, PackedKeys, SharedGradients};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Dispatch, backend_extension};
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
pub trait AttentionOps: HostBackend {
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
        _shared: Option<SharedGradients>,
    ) -> FloatTensor<Self> {
        composed::attention::<Self>(queries, keys, values, mask, options)
    }

    /// Additive attention from queries, keys and values straight to the context:
    /// [`additive_score`](Self::additive_score), [`masked_softmax`](Self::masked_softmax), dropout and
    /// [`weighted_sum`](Self::weighted_sum).
    ///
    /// `packed` may hold the keys as [`pack_additive_keys`](Self::pack_additive_keys) returns them; `shared` belongs to
    /// keys and values that went through [`share_gradients`](Self::share_gradients).
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, heads, keys, num_hiddens]`,
    ///   values `[batch, heads, keys, value_size]`, weight `[num_hiddens]`
    /// - result `[batch, heads, queries, value_size]`
    #[fusion(default)]
    #[allow(
        clippy::too_many_arguments,
        reason = "a call across the door names each tensor"
    )]
    fn additive_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
        #[extension_type] _packed: PackedKeys<Self>,
        dropout: f64,
        _shared: Option<SharedGradients>,
    ) -> FloatTensor<Self> {
        composed::additive_attention::<Self>(queries, keys, values, weight, mask, dropout)
    }

    /// The keys as the kernel of [`additive_attention`](Self::additive_attention) reads them; here, as they are.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, num_hiddens]`, result `[batch, ..]`
    #[fusion(default)]
    fn pack_additive_keys(
        keys: FloatTensor<Self>,
        #[extension_type] _mask: MaskPrimitive<Self>,
        _num_queries: usize,
    ) -> FloatTensor<Self> {
        keys
    }

    /// The same tensor, whose gradient kernels add up in place; see [`GradientSlot`].
    #[fusion(default)]
    fn share_gradients(tensor: FloatTensor<Self>, _slot: GradientSlot) -> FloatTensor<Self> {
        tensor
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
    if shape.contains(&0) || num_hiddens == 0 {
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
    attention_shared(queries, keys, values, mask, options, None)
}

/// [`attention`] on a memory's keys and values.
pub(crate) fn attention_shared(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    mask: &Mask,
    options: AttentionOptions,
    shared: Option<SharedGradients>,
) -> Tensor<4> {
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    let [_, _, _, value_size] = values.dims();
    assert_shape!(keys, [batch, heads, num_keys, size]);
    assert_shape!(values, [batch, heads, num_keys, value_size]);
    check_dropout("attention", options.dropout);
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
        shared,
    ))
}

/// [`AttentionOps::additive_attention`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::additive_attention`], the mask does not fit them, or the dropout is
/// not in `[0, 1)`.
pub fn additive_attention(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
    dropout: f64,
) -> Tensor<4> {
    additive_attention_packed(queries, keys, values, weight, mask, dropout, None, None)
}

/// [`additive_attention`] on a memory's keys and values.
#[allow(
    clippy::too_many_arguments,
    reason = "a call across the door names each tensor"
)]
pub(crate) fn additive_attention_packed(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
    dropout: f64,
    packed: Option<Tensor<4>>,
    shared: Option<SharedGradients>,
) -> Tensor<4> {
    let [batch, heads, num_queries, num_hiddens] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    let [_, _, _, value_size] = values.dims();
    assert_shape!(keys, [batch, heads, num_keys, num_hiddens]);
    assert_shape!(values, [batch, heads, num_keys, value_size]);
    assert_shape!(weight, [num_hiddens]);
    check_dropout("additive_attention", dropout);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || value_size == 0 {
        let shape = [batch, heads, num_queries, value_size];
        return Tensor::zeros(shape, (&values.device(), values.dtype()));
    }
    if num_hiddens == 0 {
        let scores = Tensor::zeros(shape, (&queries.device(), queries.dtype()));
        return weighted_sum(masked_softmax(scores, mask), values, mask);
    }
    let mask = mask.resolve(shape, &queries.device());
    let packed = match packed {
        Some(keys) => PackedKeys::Packed {
            keys: keys.into_dispatch(),
        },
        None => PackedKeys::None,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_attention(
        queries.into_dispatch(),
        keys.into_dispatch(),
        values.into_dispatch(),
        weight.into_dispatch(),
        mask,
        packed,
        dropout,
        shared,
    ))
}

/// [`AttentionOps::pack_additive_keys`] on tensors, for keys of which `mask` tells what it can without the queries'
/// positions.
pub(crate) fn pack_additive_keys(
    keys: Tensor<4>,
    mask: &Mask,
    num_queries: usize,
) -> Option<Tensor<4>> {
    let [batch, heads, num_keys, num_hiddens] = keys.dims();
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || num_hiddens == 0 {
        return None;
    }
    let mask = mask.resolve(shape, &keys.device());
    let packed =
        <Dispatch as AttentionOps>::pack_additive_keys(keys.into_dispatch(), mask, num_queries);
    Some(Tensor::from_dispatch(packed))
}

/// [`AttentionOps::share_gradients`] on tensors.
pub(crate) fn share_gradients(tensor: Tensor<4>, slot: &GradientSlot) -> Tensor<4> {
    match tensor.dims().contains(&0) {
        true => tensor,
        false => Tensor::from_dispatch(<Dispatch as AttentionOps>::share_gradients(
            tensor.into_dispatch(),
            slot.clone(),
        )),
    }
}

fn check_dropout(operation: &str, dropout: f64) {
    assert!(
        (0.0..1.0).contains(&dropout),
        "{operation}: dropout expected in [0, 1), got {dropout}"
    );
}
