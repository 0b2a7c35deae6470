//! The gradient of the context, a block of queries at a time.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::attention::AttentionOutputs;
use super::pack::PackedRows;
use crate::HeadIndex;
use crate::slices::precise_dot;

/// The gradient of the context of a block of queries, with further data of each query for the backward pass.
#[derive(Default)]
pub(super) struct ContextGradient<E> {
    pub rows: PackedRows<E>,
    /// `[QUERY_BLOCK]`: the two terms of the log-sum-exp, both in the unit of the scores.
    pub lse: Vec<[E; 2]>,
    /// `[QUERY_BLOCK]`: `D`, rounded once: its error is common to a row, and would not cancel in the row's sum.
    pub dot: Vec<E>,
    scratch: Vec<E>,
}

impl<E: Real> ContextGradient<E> {
    /// `unit` is the unit of the scores.
    #[inline(always)]
    pub(super) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        unit: E,
        outputs: &AttentionOutputs<E>,
        at: HeadIndex,
        queries: Range<usize>,
    ) {
        let [_, heads, num_queries, _] = outputs.context_gradient.shape();
        let from = &outputs.context_gradient;
        self.rows.pack(simd, from, at, queries.clone(), E::ONE);
        self.rows.find_non_finite(simd);
        let stride = self.rows.stride;
        let first = at.position(heads) * num_queries;
        let natural = unit.to_f64() * std::f64::consts::LN_2;
        self.lse.clear();
        self.dot.clear();
        for (i, query) in queries.enumerate() {
            let [largest, log_sum] = outputs.lse[first + query];
            self.lse.push([largest, log_sum / natural].map(E::from_f64));
            let context = outputs.context.row(at, query).read(&mut self.scratch);
            let gradient = &self.rows.data[i * stride..(i + 1) * stride];
            self.dot.push(E::from_f64(precise_dot(context, gradient)));
        }
    }
}
