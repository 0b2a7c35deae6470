//! Fused attention: without `[queries, keys]` in memory.

use std::f64::consts::LN_2;

use cpu_kernels::Real;
use cpu_kernels::simd::Level;

use crate::AttentionReal;
use crate::additive::AdditiveScore;
use crate::dot::DotProductScore;
use crate::inputs::{AttentionInputs, Score};
use crate::pairwise::Pass;
use crate::stream::{Attention, AttentionGradients, AttentionOutputs, LogSumExp, is_decode};
use crate::tiles::{ADDITIVE_DECODE_QUERIES, ROW_DECODE_QUERIES};

/// Evaluates the expression for the inputs' score: for scores known here with their attention as `$attention`, for
/// pairwise scores with their kernels as `$kernel`.
macro_rules! with_kernel {
    ($inputs:ident, $attention:ident => $dot_product:expr, $additive:expr, $kernel:ident => $pairwise:expr) => {
        match $inputs.score {
            Score::DotProduct { scale } => {
                let score = DotProductScore::new($inputs, scale);
                let $attention = $inputs.attention(&score);
                $dot_product
            }
            Score::Additive { .. } => {
                let score = AdditiveScore::new($inputs);
                let $attention = $inputs.attention(&score);
                $additive
            }
            Score::Pairwise {
                kernel: $kernel, ..
            } => $pairwise,
        }
    };
}

impl<'a, E: Real> AttentionInputs<'a, E> {
    /// Whether the decoding kernels run: there are too few queries, as in a step of a decoder, to make packing keys and
    /// values worthwhile, no size is 0, no user's function modifies scores, and additive scores have no modifiers.
    pub fn is_decode(&self) -> bool {
        let most = match self.score {
            // Only the streaming kernels have rows of neighbouring keys.
            _ if self.modifiers.score_mod.is_some() => return false,
            Score::DotProduct { .. } | Score::Pairwise { .. } => ROW_DECODE_QUERIES,
            Score::Additive { .. } if self.modifiers.is_none() => ADDITIVE_DECODE_QUERIES,
            Score::Additive { .. } => return false,
        };
        is_decode(most, [self.queries, self.keys, self.values])
    }

    /// The logarithm of the sum of `e^score` of a query, from the terms that [`forward`](Self::forward) wrote.
    pub fn log_sum_exp(&self, terms: LogSumExp) -> f64 {
        let [largest, log_sum] = terms;
        with_kernel!(
            self,
            attention => attention.log_sum_exp(terms),
            attention.log_sum_exp(terms),
            _kernel => {
                let is_base_2 = self.modifiers.keeps_scores() && !self.is_decode();
                largest * if is_base_2 { LN_2 } else { 1.0 } + log_sum
            }
        )
    }

    pub(crate) fn attention<'b, T>(&'b self, score: &'b T) -> Attention<'b, E, T> {
        Attention {
            score,
            values: self.values,
            modifiers: self.modifiers,
            mask: &self.mask,
            dropout: self.dropout,
            is_decode: self.is_decode(),
        }
    }
}

impl<E: AttentionReal> AttentionInputs<'_, E> {
    /// Writes the context and the logarithm of the sum of `e^score` of each query, which the backward pass needs.
    ///
    /// A query that attends to no key, or only to scores of minus infinity, has context 0. The number of threads
    /// changes no bit of the result.
    ///
    /// # Shapes
    /// - context `[batch, heads, queries, value_size]`
    /// - lse `[batch, heads, queries]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, context: &mut [E], lse: &mut [LogSumExp]) {
        with_kernel!(
            self,
            attention => E::dot_product_forward(level, &attention, context, lse),
            E::additive_forward(level, &attention, context, lse),
            kernel => E::RUN(kernel, level, self, Pass::Forward { context, lse })
        );
    }

    /// As [`forward`](Self::forward), for training a step of [decoding](Self::is_decode) with additive scores: also
    /// writes the weights before dropout, 0 where masked, for [`AttentionOutputs::weights`]. The backward pass then
    /// does not recompute the scores, and gives the same bits.
    ///
    /// # Shapes
    /// - weights `[batch, heads, queries, keys]`
    ///
    /// # Panics
    /// If this is not [decoding](Self::is_decode), scores are not additive, or the shapes do not fit together.
    pub fn forward_saving(
        &self,
        level: Level,
        context: &mut [E],
        lse: &mut [LogSumExp],
        weights: &mut [E],
    ) {
        with_kernel!(
            self,
            _attention => panic!("expected additive scores, whose weights are saved, got dot products"),
            E::additive_decode(level, &_attention, context, lse, weights),
            _kernel => panic!("expected additive scores, whose weights are saved, got pairwise ones")
        );
    }

    /// Adds the requested gradients to `gradients`; `outputs` has what [`forward`](Self::forward) wrote for the same
    /// inputs.
    ///
    /// The weights are recomputed from the scores and the log-sum-exp. If a query attends to no key all gradients are
    /// 0, whatever the gradient of the context holds. The choice of gradients and the number of threads change no bit
    /// of a result.
    ///
    /// # Panics
    /// If the shapes do not fit together, the gradient of an absent weight is requested, or gradients are deferred and
    /// this is not [decoding](Self::is_decode).
    pub fn backward(
        &self,
        level: Level,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    ) {
        with_kernel!(
            self,
            attention => E::dot_product_backward(level, &attention, outputs, gradients),
            E::additive_backward(level, &attention, outputs, gradients),
            kernel => E::RUN(kernel, level, self, Pass::Backward { outputs, gradients })
        );
    }
}
