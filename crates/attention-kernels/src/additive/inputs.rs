//! Inputs and gradients of the kernels of additive attention.

use cpu_kernels::Real;

use super::score::AdditiveScoreInputs;
use crate::stream::is_decode;
use crate::tiles::ADDITIVE_DECODE_QUERIES;
use crate::{Dropout, Rows, ScoreModifiers};

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
