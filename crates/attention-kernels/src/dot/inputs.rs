//! Inputs and gradients of the kernels of dot-product attention.

use cpu_kernels::Real;

use crate::stream::is_decode;
use crate::tiles::DOT_PRODUCT_DECODE_QUERIES;
use crate::{Dropout, Mask, ModifierGradients, Rows, ScoreModifiers};

/// Attention with scaled dot products: `softmax(scale * Q K^T) V` over the keys that each query attends to, with the
/// scores modified.
///
/// Fewer key heads than heads are grouped: head `h` attends to the key head `h * key_heads / heads`.
///
/// Vaswani et al. 2017, "Attention Is All You Need"; grouped heads: Ainslie et al. 2023, "GQA". PyTorch:
/// `F.scaled_dot_product_attention`.
///
/// # Shapes
/// - queries `[batch, heads, queries, key_size]`
/// - keys `[batch, key_heads, keys, key_size]`
/// - values `[batch, key_heads, keys, value_size]`
#[derive(Clone, Copy, Debug)]
pub struct DotProductAttentionInputs<'a, E> {
    /// The queries.
    pub queries: Rows<'a, E>,
    /// The keys.
    pub keys: Rows<'a, E>,
    /// The values, which the weights are applied to.
    pub values: Rows<'a, E>,
    /// Changes to the scores.
    pub modifiers: ScoreModifiers<'a, E>,
    /// Which keys each query attends to.
    pub mask: Mask<'a>,
    /// Usually `1 / sqrt(key_size)`.
    pub scale: E,
    /// Dropout of the weights.
    pub dropout: Option<Dropout>,
}

/// Where [`DotProductAttentionInputs::backward`] adds the gradients that are wanted; contiguous.
#[derive(Debug)]
pub struct DotProductAttentionGradients<'a, E> {
    /// `[batch, heads, queries, key_size]`
    pub queries: Option<&'a mut [E]>,
    /// `[batch, key_heads, keys, key_size]`
    pub keys: Option<&'a mut [E]>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: Option<&'a mut [E]>,
    /// The gradients of the modifiers.
    pub modifiers: ModifierGradients<'a, E>,
}

/// Where [`DotProductAttentionInputs::backward_deferred`] puts the gradients that are wanted; contiguous.
#[derive(Debug)]
pub struct DotProductDeferredGradients<'a, E> {
    /// Added to, `[batch, heads, queries, key_size]`.
    pub queries: Option<&'a mut [E]>,
    /// The gradients of the scores, for the gradients of the keys; written where a query attends to a key,
    /// `[batch, heads, queries, keys]`.
    pub scores: Option<&'a mut [E]>,
    /// The weights after dropout, for the gradients of the values; written where a query attends to a key,
    /// `[batch, heads, queries, keys]`.
    pub weights: Option<&'a mut [E]>,
    /// The gradients of the modifiers, added to.
    pub modifiers: ModifierGradients<'a, E>,
}

impl<E: Real> DotProductAttentionInputs<'_, E> {
    /// The most queries of [decoding](Self::is_decode).
    pub const DECODE_QUERIES: usize = DOT_PRODUCT_DECODE_QUERIES;

    /// Whether there are so few queries, as in a step of a decoder, that packing keys and values for them is not worth
    /// it, and no size is 0.
    pub fn is_decode(&self) -> bool {
        is_decode(Self::DECODE_QUERIES, [self.queries, self.keys, self.values])
    }
}
