//! The terms of a score when some are evaluated from the sum of query and key.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};

use super::pack::UnitWeights;
use super::tanh::{Exact, complement, exact_lanes};
use super::tile::{KeyBlock, Products, QueryTile, Quotients, Terms, copy_units, unit_reciprocal};
use crate::tiles::{KEY_LANES, UNIT_CHUNK};

/// Adds terms, some of which are evaluated from the sum of query and key. Rare, slow and large, so compiled once for
/// each instruction set.
pub(super) struct ExactTerms<'a, 'b, E, const Q: usize> {
    pub weights: &'a UnitWeights<E>,
    pub queries: &'a QueryTile<'b, E, Q>,
    pub keys: &'a KeyBlock<'b, E>,
    pub chunk: Range<usize>,
    pub sums: &'a mut [[E; KEY_LANES]; Q],
}

impl<E: Real, const Q: usize> Job<E> for ExactTerms<'_, '_, E, Q> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        match const { KEY_LANES / S::LANES } {
            1 => self.add::<S, 1>(simd),
            2 => self.add::<S, 2>(simd),
            _ => self.add::<S, 4>(simd),
        }
    }
}

impl<E: Real, const Q: usize> ExactTerms<'_, '_, E, Q> {
    #[inline(always)]
    fn add<S: Simd<E>, const N: usize>(self, simd: S) {
        let (weights, queries, keys) = (self.weights, self.queries, self.keys);
        let (chunk, to) = (self.chunk, self.sums);
        let from = to.each_ref();
        let mut sums =
            from.map(|from| std::array::from_fn::<_, N, _>(|n| simd.load(&from[n * S::LANES..])));
        if weights.are_large {
            add_exact::<E, S, Products, Q, N>(simd, weights, queries, keys, chunk, &mut sums);
        } else {
            add_exact::<E, S, Quotients, Q, N>(simd, weights, queries, keys, chunk, &mut sums);
        }
        for (to, sums) in to.iter_mut().zip(sums) {
            for (to, sum) in to.chunks_exact_mut(S::LANES).zip(sums) {
                simd.store(sum, to);
            }
        }
    }
}

/// As [`Terms::add`], in the same order; but where an element is evaluated from the sum, its whole pair of units is.
#[inline(always)]
fn add_exact<E: Real, S: Simd<E>, M: Terms, const Q: usize, const N: usize>(
    simd: S,
    weights: &UnitWeights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
    chunk: Range<usize>,
    sums: &mut [[S::V; N]; Q],
) {
    let key_units = keys.units(chunk.clone());
    let query_units: [[E; UNIT_CHUNK]; Q] =
        std::array::from_fn(|q| copy_units(queries.rows[q], chunk.clone()));
    for first in chunk.clone().step_by(2) {
        let both = first..chunk.end.min(first + 2);
        let within = both.start - chunk.start..both.end - chunk.start;
        let before = *sums;
        M::add::<E, S, Exact, Q, N>(simd, weights, queries, keys, both.clone(), sums);
        for q in 0..Q {
            let query = &query_units[q][within.clone()];
            let pairs = query.iter().zip(&key_units[within.clone()]);
            let mut exact = None;
            for lanes in pairs.clone().filter_map(|(x, keys)| exact_lanes(*x, keys)) {
                let either: &mut [E; KEY_LANES] = exact.get_or_insert([E::ZERO; KEY_LANES]);
                for (either, lane) in either.iter_mut().zip(lanes) {
                    *either += lane;
                }
            }
            let Some(exact) = exact else { continue };
            let mut direct = before[q];
            for (unit, (x, key)) in both.clone().zip(pairs) {
                for (n, direct) in direct.iter_mut().enumerate() {
                    let sum = simd.add(simd.splat(*x), simd.load(&key[n * S::LANES..]));
                    let relative = simd.splat(weights.relative[unit]);
                    let mut r = complement(simd, sum);
                    if weights.are_large {
                        r = simd.sub(simd.add(r, r), simd.splat(E::ONE));
                    }
                    *direct = simd.mul_add(relative, r, *direct);
                    if weights.excess[unit] != E::ZERO {
                        // Every sum is corrected later by subtracting a term, which this sum does not have.
                        let r = unit_reciprocal(simd, weights, queries, keys, unit, [q, n]);
                        let excess = simd.splat(weights.excess[unit]);
                        *direct = simd.neg_mul_add(excess, r, *direct);
                    }
                }
            }
            for n in 0..N {
                let flags = simd.load(&exact[n * S::LANES..]);
                let take = simd.less(simd.zero(), flags);
                sums[q][n] = simd.select(take, direct[n], sums[q][n]);
            }
        }
    }
}
