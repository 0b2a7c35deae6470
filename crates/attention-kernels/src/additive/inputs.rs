//! Inputs and gradients of the kernels of additive attention.

use cpu_kernels::Real;

use super::score::AdditiveScoreInputs;
use crate::stream::is_decode;
use crate::tiles::ADDITIVE_DECODE_QUERIES;
use crate::{Dropout, ModifierGradients, Rows, ScoreModifiers};

/// Additive attention: `softmax(score) V` over the keys that each query attends to, with the scores of
/// [`AdditiveScoreInputs`]; fused, without `[queries, keys]` in memory.
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate".
///
/// # Shapes
/// - values `[batch, key_heads, keys, value_size]`
#[derive(Clone, Copy, Debug)]
pub struct AdditiveAttentionInputs<'a, E> {
    /// Queries, keys, weight and mask.
    pub score: AdditiveScoreInputs<'a, E>,
    /// The values, which the weights are applied to.
    pub values: Rows<'a, E>,
    /// The keys as [`AdditiveScoreInputs::packed_keys`] returned them, if they were packed before.
    pub packed_keys: Option<&'a [E]>,
    /// Changes to the scores.
    pub modifiers: ScoreModifiers<'a, E>,
    /// Dropout of the weights.
    pub dropout: Option<Dropout>,
}

/// Where [`AdditiveAttentionInputs::backward`] adds the gradients that are wanted; contiguous.
#[derive(Debug)]
pub struct AdditiveAttentionGradients<'a, E> {
    /// `[batch, heads, queries, units]`
    pub queries: Option<&'a mut [E]>,
    /// `[batch, key_heads, keys, units]`
    pub keys: Option<&'a mut [E]>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: Option<&'a mut [E]>,
    /// `[units]`
    pub weight: Option<&'a mut [E]>,
    /// The gradients of the modifiers.
    pub modifiers: ModifierGradients<'a, E>,
}

/// Where [`AdditiveAttentionInputs::backward_deferred`] puts the gradients that are wanted; contiguous.
#[derive(Debug)]
pub struct AdditiveDeferredGradients<'a, E> {
    /// Added to, `[batch, heads, queries, units]`.
    pub queries: Option<&'a mut [E]>,
    /// Added to, `[units]`.
    pub weight: Option<&'a mut [E]>,
    /// The gradients of the scores, for the gradients of the keys; written where a query attends to a key,
    /// `[batch, heads, queries, keys]`.
    pub scores: Option<&'a mut [E]>,
    /// The weights after dropout, for the gradients of the values; written where a query attends to a key,
    /// `[batch, heads, queries, keys]`.
    pub weights: Option<&'a mut [E]>,
}

impl<E: Real> AdditiveAttentionInputs<'_, E> {
    /// The most queries of [decoding](Self::is_decode).
    pub const DECODE_QUERIES: usize = ADDITIVE_DECODE_QUERIES;

    /// Whether there are so few queries, as in a step of a decoder, that packing keys and values for them is not worth
    /// it, no size is 0, and there are no modifiers.
    pub fn is_decode(&self) -> bool {
        let AdditiveScoreInputs { queries, keys, .. } = self.score;
        self.modifiers.is_none() && is_decode(Self::DECODE_QUERIES, [queries, keys, self.values])
    }
}
