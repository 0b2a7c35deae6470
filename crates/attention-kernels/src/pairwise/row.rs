//! The scores and gradients of one query with rows of keys. The units are the lanes.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::PairwiseTerm;
use super::score::PairwiseScore;
use crate::Rows;
use crate::decode::{RowGradients, RowScore};
use crate::gather::{Gathered, RowTerm};

impl<E: Real, T: PairwiseTerm> RowScore<E> for PairwiseScore<'_, E, T> {
    fn rows(&self) -> [Rows<'_, E>; 2] {
        [self.queries, self.keys]
    }

    #[inline(always)]
    fn row_scores<S: Simd<E>>(&self, simd: S, query: &[E], keys: Gathered<E>, scores: &mut [E]) {
        keys.sums(simd, self, query, scores);
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
        for first in (0..size).step_by(S::LANES) {
            let units = first..size.min(first + S::LANES);
            let weight = simd.load_partial(&self.weight[units.clone()]);
            let query = simd.load_partial(&query[units.clone()]);
            let [mut query_sum, mut weight_sum] = [simd.zero(); 2];
            for (&index, &gradient) in keys.indices.iter().zip(gradients) {
                if gradient == E::ZERO {
                    continue;
                }
                let key = keys.rows.row(keys.at, index).part(units.clone());
                let key = simd.load_partial(key.read(&mut wide));
                let gradient = simd.splat(gradient);
                let weighted = simd.mul(gradient, weight);
                let [by_query, by_key] = self.term.derivatives(simd, query, key);
                query_sum = simd.mul_add(weighted, by_query, query_sum);
                if let Some(to) = &mut to.keys {
                    let to = &mut to[index * size..][units.clone()];
                    simd.store_partial(simd.mul_add(weighted, by_key, simd.load_partial(to)), to);
                }
                if !to.shared.is_empty() {
                    let value = self.term.value(simd, query, key);
                    weight_sum = simd.mul_add(gradient, value, weight_sum);
                }
            }
            let add = |sum, to: &mut [E]| {
                simd.store_partial(simd.add(sum, simd.load_partial(to)), to);
            };
            if let Some(to) = &mut to.query {
                add(query_sum, &mut to[units.clone()]);
            }
            if !to.shared.is_empty() {
                add(weight_sum, &mut to.shared[units]);
            }
        }
    }
}

impl<E: Real, T: PairwiseTerm> RowTerm<E> for &PairwiseScore<'_, E, T> {
    #[inline(always)]
    fn add_to<S: Simd<E>>(
        self,
        simd: S,
        units: Range<usize>,
        [query, key]: [S::V; 2],
        sum: S::V,
    ) -> S::V {
        let mut value = self.term.value(simd, query, key);
        if units.len() < S::LANES {
            // Beyond the last unit, the term of two zeros need not be 0.
            let count = simd.splat(E::from_f64(units.len() as f64));
            let is_unit = simd.less(simd.count_from(E::ZERO), count);
            value = simd.select(is_unit, value, simd.zero());
        }
        simd.mul_add(simd.load_partial(&self.weight[units]), value, sum)
    }
}
