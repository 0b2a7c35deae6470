//! Additive scores of all pairs, `[batch, heads, queries, keys]`.

mod backward;
mod forward;

pub(crate) use backward::{backward, backward_keys};
pub(crate) use forward::{forward, packed_keys};

use super::pack::packed_block_len;
use crate::checks::check_shape;
use crate::heads::Heads;
use crate::simd::Level;
use crate::tiles::KEY_LANES;
use crate::{Buffer, Mask, Real, Rows};

/// Additive scores to compute, `score[b,h,i,j] = sum_u weight[u] tanh(queries[b,h,i,u] + keys[b,n,j,u])`, and 0 for
/// pairs that are masked.
///
/// Fewer key heads than heads are grouped: head `h` attends to the key head `n = h * key_heads / heads`.
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate".
///
/// # Shapes
/// - queries `[batch, heads, queries, units]`
/// - keys `[batch, key_heads, keys, units]`
/// - weight `[units]`
#[derive(Clone, Copy, Debug)]
pub struct AdditiveScoreInputs<'a, E> {
    /// Queries, projected to the hidden units.
    pub queries: Rows<'a, E>,
    /// Keys, projected to the hidden units.
    pub keys: Rows<'a, E>,
    /// The weight of each hidden unit; beyond a third of the largest element, scores may overflow.
    pub weight: &'a [E],
    /// Which keys each query attends to.
    pub mask: Mask<'a>,
}

/// Where [`AdditiveScoreInputs::backward`] adds gradients; contiguous.
#[derive(Debug)]
pub struct AdditiveScoreGradients<'a, E> {
    /// `[batch, heads, queries, units]`
    pub queries: &'a mut [E],
    /// `[batch, key_heads, keys, units]`
    pub keys: &'a mut [E],
    /// `[units]`
    pub weight: &'a mut [E],
}

const OPERATION: &str = "additive score";

impl<'a, E: Real> AdditiveScoreInputs<'a, E> {
    /// Computes the scores.
    ///
    /// # Shapes
    /// - scores `[batch, heads, queries, keys]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, scores: &mut [E]) {
        E::score_forward(self, level, scores);
    }

    /// Adds the gradients to `gradients`, where `score_gradients` is that of the scores. What it holds for masked pairs
    /// does not matter.
    ///
    /// # Shapes
    /// - score_gradients `[batch, heads, queries, keys]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(
        &self,
        level: Level,
        score_gradients: Rows<E>,
        gradients: AdditiveScoreGradients<E>,
    ) {
        E::score_backward(self, level, score_gradients, gradients);
    }

    /// As [`backward`](Self::backward), of the keys alone: for the steps of a decoder, whose gradients of the scores
    /// [`AdditiveAttentionInputs::backward_deferred`](crate::AdditiveAttentionInputs::backward_deferred) has written,
    /// with the queries of all steps side by side.
    ///
    /// Where `group` heads share a key head, they may be heads here too. Or the queries of the group are queries of the
    /// key head: without a copy, `[batch, heads, queries, keys]` becomes `[batch, key_heads, group * queries, keys]`,
    /// and so do contiguous queries.
    ///
    /// # Shapes
    /// - score_gradients `[batch, heads, queries, keys]`
    /// - keys `[batch, key_heads, keys, units]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward_keys(&self, level: Level, score_gradients: Rows<E>, keys: &mut [E]) {
        E::score_backward_keys(self, level, score_gradients, keys);
    }

    /// The shape of what [`packed_keys`](Self::packed_keys) returns, for keys `[batch, key_heads, keys, units]`.
    pub fn packed_shape(keys: [usize; 4]) -> [usize; 4] {
        let [batch, key_heads, num_keys, units] = keys;
        let len = num_keys.div_ceil(KEY_LANES) * packed_block_len(units);
        [batch, key_heads, len / KEY_LANES, KEY_LANES]
    }

    /// The keys as the forward kernel reads them: exponentiated, in blocks, transposed. For keys of many
    /// calls. Of the queries only the number matters, for the mask.
    ///
    /// # Panics
    /// If the mask does not fit the keys.
    pub fn packed_keys(
        keys: Rows<'a, E>,
        mask: Mask<'a>,
        num_queries: usize,
        level: Level,
    ) -> Buffer<E> {
        E::packed_keys(keys, mask, num_queries, level)
    }

    /// # Panics
    /// If the shapes of queries, keys and weight do not fit together.
    pub(super) fn check(&self, operation: &str) -> Heads {
        let heads = Heads::of(operation, self.queries.shape(), self.keys.shape());
        let [.., units] = self.queries.shape();
        check_shape(operation, "weight", [units], [self.weight.len()]);
        heads
    }
}
