//! The narrow door: the operations that a backend may replace by a kernel.
//!
//! [`AttentionOps`] is a Burn backend extension. Each of its methods has a default body that composes Burn's
//! own tensor operations (in `composed.rs`): that body is the definition of the operation, its documentation and
//! the oracle of any kernel. The functions of this module (in `tensors.rs`) are the same operations on
//! [`Tensor`](burn::tensor::Tensor)s, with shapes checked before anything is dispatched.
//!
//! Axes are always `[batch, heads, queries, keys]`.

#![cfg_attr(
    not(any(feature = "flex", feature = "ndarray", feature = "cubecl-backend")),
    allow(unused_variables, reason = "without a backend nothing is dispatched")
)]

#[cfg(feature = "autodiff")]
mod autodiff;
mod backends;
#[cfg(all(feature = "host", feature = "autodiff"))]
mod backward;
mod composed;
mod host;
#[cfg(feature = "host")]
mod kernels;
mod mask;
mod optional;
mod share;
mod tensors;

pub use host::HostBackend;
pub use mask::MaskPrimitive;
pub use optional::OptionalTensor;
pub use share::{GradientSlot, SharedGradients};
pub(crate) use tensors::{Pooling, pack_additive_keys, share_gradients};
pub use tensors::{
    additive_attention, additive_score, attention, dot_product_score, fill_hidden, fill_padding,
    masked_softmax, weighted_sum,
};

use burn::backend::backend_extension;
use burn::backend::tensor::FloatTensor;

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
    /// [`dot_product_score`](Self::dot_product_score) plus the bias, [`masked_softmax`](Self::masked_softmax), dropout
    /// and [`weighted_sum`](Self::weighted_sum).
    ///
    /// `shared` belongs to keys and values that went through [`share_gradients`](Self::share_gradients).
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, size]`, keys `[batch, heads, keys, size]`,
    ///   values `[batch, heads, keys, value_size]`, bias `[batch, heads or 1, 1, keys]`
    /// - result `[batch, heads, queries, value_size]`
    #[fusion(default)]
    fn attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        #[extension_type] bias: OptionalTensor<Self>,
        #[extension_type] mask: MaskPrimitive<Self>,
        options: AttentionOptions,
        _shared: Option<SharedGradients>,
    ) -> FloatTensor<Self> {
        composed::attention::<Self>(queries, keys, values, bias, mask, options)
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
        #[extension_type] _packed: OptionalTensor<Self>,
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

    /// The same tensor, whose gradient kernels may make from what all its readers leave; see [`GradientSlot`].
    #[fusion(default)]
    fn share_gradients(tensor: FloatTensor<Self>, _slot: GradientSlot) -> FloatTensor<Self> {
        tensor
    }
}
