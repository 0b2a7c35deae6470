//! What gradients of scores give queries, keys and weight.

use std::ops::Range;

use super::super::BLOCK;
use super::super::gradient::direct;
use super::super::range::{Path, Reach, exponentials, negative_tanh, negative_tanh_of_far};
use super::Head;
use crate::simd::{Real, Simd};

/// The gradients of scores, `[queries][stride]`; 0 where hidden.
pub(super) struct Slopes<'a, E> {
    pub head: &'a Head<'a, E>,
    /// From a multiple of [`BLOCK`] on.
    pub keys: Range<usize>,
    pub gradient: &'a [E],
    pub stride: usize,
}

/// Rows of whole vectors.
#[derive(Default)]
pub(super) struct Scratch<E> {
    /// `e^(2q) / 2`
    queries: Vec<E>,
    query_reach: Vec<Reach>,
    weights: Vec<E>,
    query_sums: Vec<E>,
    weight_sums: Vec<E>,
    /// `e^(2k)` of a block.
    keys: Vec<E>,
}

impl<E: Real> Slopes<'_, E> {
    /// Adds what they give the queries and weight of the head, and with `KEYS` its keys; see `gradient.rs` for the
    /// formulas.
    ///
    /// One vector of units and one block of keys at a time: the sums over keys stay in registers, and the gradient of
    /// each key is read and written once.
    #[inline(always)]
    pub(super) fn add<S: Simd<E>, const KEYS: bool>(
        &self,
        simd: S,
        scratch: &mut Scratch<E>,
        to_queries: &mut [E],
        to_keys: &mut [E],
        to_weight: &mut [E],
    ) {
        let score = &self.head.problem.score;
        let [batch, head] = self.head.at;
        let [_, _, num_queries, units] = score.queries.shape();
        // Whole vectors: what lies beyond the units comes to nothing.
        let padded = units.next_multiple_of(S::LANES);
        let Scratch {
            queries,
            query_reach,
            weights,
            query_sums,
            weight_sums,
            keys,
        } = scratch;
        queries.resize(num_queries * padded, E::ONE);
        query_reach.clear();
        for (query, to) in queries.chunks_exact_mut(padded).enumerate() {
            let from = score.queries.row(batch, head, query);
            query_reach.push(exponentials(simd, from, &mut to[..units]));
            let half = E::from_f64(0.5);
            to[..units].iter_mut().for_each(|x| *x = *x * half);
        }
        weights.resize(padded, E::ZERO);
        weights[..units].copy_from_slice(score.weight);
        for (sums, len) in [(&mut *query_sums, queries.len()), (weight_sums, padded)] {
            sums.clear();
            sums.resize(len, E::ZERO);
        }
        keys.resize(BLOCK * padded, E::ONE);
        for first in self.keys.clone().step_by(BLOCK) {
            let block = first..self.keys.end.min(first + BLOCK);
            let key_reach = self.exponentials(simd, block.clone(), padded, keys);
            for (query, reach) in query_reach.iter().enumerate() {
                let column = first - self.keys.start;
                let gradient = &self.gradient[query * self.stride + column..][..block.len()];
                let path = reach.path(key_reach);
                let query_row = score.queries.row(batch, head, query);
                for unit in (0..padded).step_by(S::LANES) {
                    let at = query * padded + unit;
                    let exponentials = simd.load(&queries[at..]);
                    let weight = simd.load(&weights[unit..]);
                    let mut query_sum = simd.load(&query_sums[at..]);
                    let mut weight_sum = simd.load(&weight_sums[unit..]);
                    for (lane, g) in gradient.iter().enumerate() {
                        if *g == E::ZERO {
                            continue;
                        }
                        let key = simd.load(&keys[lane * padded + unit..]);
                        let mut negative_tanh = negative_tanh(simd, exponentials, key);
                        if path != Path::Fast {
                            negative_tanh = negative_tanh_of_far(simd, exponentials, key);
                            if path == Path::Slow {
                                let key = score.keys.row(batch, head, first + lane);
                                negative_tanh = direct(simd, query_row, key, unit, negative_tanh);
                            }
                        }
                        let g = simd.splat(*g);
                        let product = simd.mul(g, negative_tanh);
                        let term = simd.neg_mul_add(product, negative_tanh, g);
                        query_sum = simd.add(query_sum, term);
                        weight_sum = simd.add(weight_sum, product);
                        if KEYS {
                            let row = (first + lane) * units;
                            let to = &mut to_keys[row + unit..row + units];
                            add_product(simd, weight, term, to);
                        }
                    }
                    simd.store(query_sum, &mut query_sums[at..]);
                    simd.store(weight_sum, &mut weight_sums[unit..]);
                }
            }
        }
        let rows = to_queries.chunks_exact_mut(units);
        for (to, sums) in rows.zip(query_sums.chunks_exact(padded)) {
            for ((to, weight), sum) in to.iter_mut().zip(score.weight).zip(sums) {
                *to += *weight * *sum;
            }
        }
        for (to, sum) in to_weight.iter_mut().zip(&*weight_sums) {
            *to += -*sum;
        }
    }

    /// `e^(2k)` of a block of keys, `[keys][padded]`, from the packed keys if there are any: transposing is cheaper
    /// than computing them again. Returns their reach.
    #[inline(always)]
    fn exponentials<S: Simd<E>>(
        &self,
        simd: S,
        block: Range<usize>,
        padded: usize,
        to: &mut [E],
    ) -> Reach {
        let score = &self.head.problem.score;
        let [batch, head] = self.head.at;
        let [_, _, _, units] = score.keys.shape();
        let Some(packed) = self.head.packed_block(block.start / BLOCK) else {
            let mut reach = Reach::Near;
            for (key, to) in block.zip(to.chunks_exact_mut(padded)) {
                let row = score.keys.row(batch, head, key);
                reach = reach.max(exponentials(simd, row, &mut to[..units]));
            }
            return reach;
        };
        let whole = units - units % S::LANES;
        for unit in (0..whole).step_by(S::LANES) {
            for lane in (0..BLOCK).step_by(S::LANES) {
                let (from, to) = (
                    &packed[unit * BLOCK + lane..],
                    &mut to[lane * padded + unit..],
                );
                simd.transpose(from, BLOCK, to, padded);
            }
        }
        for unit in whole..units {
            for lane in 0..BLOCK {
                to[lane * padded + unit] = packed[unit * BLOCK + lane];
            }
        }
        Reach::from_number(packed[units * BLOCK])
    }
}

/// `to += a * b`, for as many numbers as `to` has.
#[inline(always)]
fn add_product<E: Real, S: Simd<E>>(simd: S, a: S::V, b: S::V, to: &mut [E]) {
    if to.len() >= S::LANES {
        simd.store(simd.mul_add(a, b, simd.load(to)), to);
    } else {
        simd.store_partial(simd.mul_add(a, b, simd.load_partial(to)), to);
    }
}
