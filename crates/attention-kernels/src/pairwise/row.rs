//! The scores and gradients of one query with rows of keys. The units are the lanes.

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::PairwiseTerm;
use super::score::PairwiseScore;
use crate::Rows;
use crate::decode::{RowGradients, RowScore};
use crate::gather::Gathered;

impl<E: Real, T: PairwiseTerm> RowScore<E> for PairwiseScore<'_, E, T> {
    fn rows(&self) -> [Rows<'_, E>; 2] {
        [self.queries, self.keys]
    }

    #[inline(always)]
    fn row_scores<S: Simd<E>>(&self, simd: S, query: &[E], keys: Gathered<E>, scores: &mut [E]) {
        let (size, mut wide) = (query.len(), Vec::new());
        for (&index, score) in keys.indices.iter().zip(scores) {
            let key = keys.rows.row(keys.at, index).read(&mut wide);
            let mut sum = simd.zero();
            for first in (0..size).step_by(S::LANES) {
                let units = first..size.min(first + S::LANES);
                let [weight, query, key] = [&self.weight, query, key]
                    .map(|row: &[E]| simd.load_partial(&row[units.clone()]));
                let mut value = self.term.value(simd, query, key);
                if units.len() < S::LANES {
                    // Beyond the last unit a term of zeros may be anything.
                    let count = simd.splat(E::from_f64(units.len() as f64));
                    let is_unit = simd.less(simd.count_from(E::ZERO), count);
                    value = simd.select(is_unit, value, simd.zero());
                }
                sum = simd.mul_add(weight, value, sum);
            }
            *score = simd.sum(sum);
        }
    }

    #[inline(always)]
    fn add_row_gradients<S: Simd<E>>(
        &self,
        simd: S,
        query: &[E],
        keys: Gathered<E>,
        gradients: &[E],
        mut to: RowGradients<E>,
    ) {
        if to.query.is_none() && to.keys.is_none() && to.shared.is_empty() {
            return;
        }
        let (size, mut wide) = (query.len(), Vec::new());
        for (&index, &gradient) in keys.indices.iter().zip(gradients) {
            if gradient == E::ZERO {
                continue;
            }
            let key = keys.rows.row(keys.at, index).read(&mut wide);
            let gradient = simd.splat(gradient);
            for first in (0..size).step_by(S::LANES) {
                let units = first..size.min(first + S::LANES);
                let [weight, query, key] = [&self.weight, query, key]
                    .map(|row: &[E]| simd.load_partial(&row[units.clone()]));
                let add = |factor, of_unit, to: &mut [E]| {
                    simd.store_partial(simd.mul_add(factor, of_unit, simd.load_partial(to)), to);
                };
                let weighted = simd.mul(gradient, weight);
                let [by_query, by_key] = self.term.derivatives(simd, query, key);
                if let Some(to) = &mut to.query {
                    add(weighted, by_query, &mut to[units.clone()]);
                }
                if let Some(to) = &mut to.keys {
                    add(weighted, by_key, &mut to[index * size..][units.clone()]);
                }
                if !to.shared.is_empty() {
                    let value = self.term.value(simd, query, key);
                    add(gradient, value, &mut to.shared[units]);
                }
            }
        }
    }
}
