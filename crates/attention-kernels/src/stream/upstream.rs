//! What comes from above: the gradient of the context, a block of rows at a time.

use std::ops::Range;

use super::backward::Outputs;
use super::pack::{clear_rows, find_non_finite, pack_rows, padded};
use super::score::Place;
use crate::Real;
use crate::simd::Simd;

/// A block of rows of the context's gradient.
#[derive(Default)]
pub(super) struct Upstream<E> {
    /// `[BLOCK, padded value_size]`
    pub gradient: Vec<E>,
    /// The same with zeros for rows that are not finite, if there are any.
    pub finite: Vec<E>,
    pub non_finite: Vec<usize>,
    /// `[BLOCK]`: the log-sum-exp in the unit of the scores, rounded, and what rounding cut off. It may be large
    /// beside its differences to the scores, which are what counts.
    pub lse: Vec<[E; 2]>,
    /// `[BLOCK]`: `D`.
    pub dot: Vec<E>,
    scratch: Vec<E>,
}

impl<E: Real> Upstream<E> {
    #[inline(always)]
    pub(super) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        unit: E,
        outputs: &Outputs<E>,
        place: Place,
        queries: Range<usize>,
    ) {
        let Place { batch, head, .. } = place;
        let [_, heads, num_queries, value_size] = outputs.context_gradient.shape();
        let stride = padded::<E, S>(value_size);
        pack_rows(
            simd,
            &outputs.context_gradient,
            [batch, head],
            queries.clone(),
            E::ONE,
            &mut self.gradient,
        );
        find_non_finite(simd, &self.gradient, stride, stride, &mut self.non_finite);
        if !self.non_finite.is_empty() {
            self.finite.clone_from(&self.gradient);
            clear_rows(&mut self.finite, stride, &self.non_finite);
        }
        let first = (batch * heads + head) * num_queries;
        let natural = unit.to_f64() * std::f64::consts::LN_2;
        self.lse.clear();
        self.dot.clear();
        for (i, query) in queries.enumerate() {
            let lse = outputs.lse[first + query].to_f64() / natural;
            let high = E::from_f64(lse);
            let low = E::from_f64(lse - high.to_f64());
            self.lse
                .push([high, if high.is_finite() { low } else { E::ZERO }]);
            let context = outputs.context.row(batch, head, query);
            let context = context.read(&mut self.scratch);
            let gradient = &self.gradient[i * stride..(i + 1) * stride];
            let mut sum = simd.zero();
            for (context, gradient) in context
                .chunks(S::LANES)
                .zip(gradient.chunks_exact(S::LANES))
            {
                sum = simd.mul_add(simd.load_partial(context), simd.load(gradient), sum);
            }
            self.dot.push(simd.sum(sum));
        }
    }
}
