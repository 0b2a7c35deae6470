//! Additive scores of all pairs, `[batch, heads, queries, keys]`.

mod backward;
mod forward;
mod inputs;

pub(crate) use backward::backward;
pub(crate) use forward::{forward, packed_keys};
pub use inputs::{AdditiveScoreGradients, AdditiveScoreInputs};

use cpu_kernels::Buffer;
use cpu_kernels::simd::Level;

use super::pack::packed_shape;
use crate::{AttentionReal, Mask, Rows};

impl<'a, E: AttentionReal> AdditiveScoreInputs<'a, E> {
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

    /// Adds the requested gradients to `gradients`; `score_gradients` is the gradient of the scores, which is ignored
    /// at masked pairs. The choice of gradients changes no bit of a result.
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

    /// The part of [`backward`](Self::backward) for the keys alone: for the steps of a decoder, whose gradients of
    /// scores were [deferred](crate::KeyValueGradients::Deferred), with the queries of all steps concatenated.
    ///
    /// If `group` heads share a key head, they may be heads here too. Alternatively the queries of the group are
    /// queries of the key head: without a copy, `[batch, heads, queries, keys]` becomes `[batch, key_heads, group *
    /// queries, keys]`, and contiguous queries likewise.
    ///
    /// # Shapes
    /// - score_gradients `[batch, heads, queries, keys]`
    /// - keys `[batch, key_heads, keys, units]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward_keys(&self, level: Level, score_gradients: Rows<E>, keys: &mut [E]) {
        let gradients = AdditiveScoreGradients {
            queries: None,
            keys: Some(keys),
            weight: None,
        };
        self.backward(level, score_gradients, gradients);
    }

    /// The shape of the result of [`packed_keys`](Self::packed_keys), for keys `[batch, key_heads, keys, units]`.
    pub fn packed_shape(keys: [usize; 4]) -> [usize; 4] {
        packed_shape(keys)
    }

    /// The keys as the forward kernel reads them: exponentiated, in blocks, transposed. For keys that many calls read.
    /// Only the number of queries matters, for the mask.
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
}
