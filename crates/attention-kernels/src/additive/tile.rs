//! The scores of a few queries with one block of keys.

use std::ops::Range;

use super::BLOCK;
use super::pack::{CHUNK, PackedQueries, TILE, Weights};
use super::range::{Path, Reach, apart, bounded_denominator, complement};
use crate::Rows;
use crate::rows::Row;
use crate::simd::{Real, Simd};

/// One block of keys.
pub(super) struct KeyBlock<'a, E> {
    /// `e^(2k)`, `[units][BLOCK]`.
    packed: &'a [E],
    reach: Reach,
    /// Where to find the keys themselves, for the slow path.
    keys: Rows<'a, E>,
    at: [usize; 2],
    first: usize,
}

impl<'a, E: Real> KeyBlock<'a, E> {
    /// The keys of one head from `first` on, with what `pack_keys` made of them.
    #[inline(always)]
    pub(super) fn new(keys: Rows<'a, E>, at: [usize; 2], first: usize, packed: &'a [E]) -> Self {
        let [_, _, _, units] = keys.shape();
        Self {
            packed: &packed[..units * BLOCK],
            reach: Reach::from_number(packed[units * BLOCK]),
            keys,
            at,
            first,
        }
    }

    /// Some units of the keys themselves, `[units][BLOCK]`; 0 for keys that are not there.
    fn units(&self, range: Range<usize>) -> [[E; BLOCK]; CHUNK] {
        let [_, _, num_keys, _] = self.keys.shape();
        let mut units = [[E::ZERO; BLOCK]; CHUNK];
        for lane in 0..BLOCK.min(num_keys - self.first) {
            let row = self.keys.row(self.at[0], self.at[1], self.first + lane);
            let row = copy_units(row, range.clone());
            for (unit, key) in units.iter_mut().zip(row) {
                unit[lane] = key;
            }
        }
        units
    }
}

/// A few queries.
pub(super) struct QueryTile<'a, E, const Q: usize> {
    /// `(m / w) e^(2q)`, `[units][Q]`.
    pub packed: &'a [E],
    /// The queries themselves, for the slow path.
    pub rows: [Row<'a, E>; Q],
    pub reach: Reach,
}

/// Where scores go: row `q` of a tile to `to[q * stride..][..width]`, times `factor`.
pub(super) struct Target<'a, E> {
    pub to: &'a mut [E],
    pub stride: usize,
    /// At most [`BLOCK`].
    pub width: usize,
    /// `-2 m` for the scores themselves.
    pub factor: E,
}

/// Writes the scores of the tile that starts at `query` with a block of keys; returns how many queries the tile has.
#[inline(always)]
pub(super) fn tile_scores<E: Real, S: Simd<E>>(
    simd: S,
    weights: &Weights<E>,
    queries: &PackedQueries<E>,
    query: usize,
    keys: &KeyBlock<E>,
    target: Target<E>,
) -> usize {
    match BLOCK / S::LANES {
        1 => tile_vectors::<E, S, 1>(simd, weights, queries, query, keys, target),
        2 => tile_vectors::<E, S, 2>(simd, weights, queries, query, keys, target),
        _ => tile_vectors::<E, S, 4>(simd, weights, queries, query, keys, target),
    }
}

/// With `N` vectors in a block of keys.
#[inline(always)]
fn tile_vectors<E: Real, S: Simd<E>, const N: usize>(
    simd: S,
    weights: &Weights<E>,
    queries: &PackedQueries<E>,
    query: usize,
    keys: &KeyBlock<E>,
    target: Target<E>,
) -> usize {
    let count = queries.tile_len(query);
    if count == TILE {
        let tile = queries.tile::<TILE>(query);
        target.store(simd, sums::<E, S, TILE, N>(simd, weights, &tile, keys));
    } else {
        let tile = queries.tile::<1>(query);
        target.store(simd, sums::<E, S, 1, N>(simd, weights, &tile, keys));
    }
    count
}

impl<E: Real> Target<'_, E> {
    #[inline(always)]
    fn store<S: Simd<E>, const Q: usize, const N: usize>(self, simd: S, sums: [[S::V; N]; Q]) {
        let factor = simd.splat(self.factor);
        for (q, sums) in sums.into_iter().enumerate() {
            let row = &mut self.to[q * self.stride..][..self.width];
            for (row, sums) in row.chunks_mut(S::LANES).zip(sums) {
                let scores = simd.mul(factor, sums);
                match row.len() == S::LANES {
                    true => simd.store(scores, row),
                    false => simd.store_partial(scores, row),
                }
            }
        }
    }
}

/// `sum_u w[u] / m * (r[i,j,u] - 1/2)`, for `Q` queries and the `BLOCK` keys in `N` vectors: the score is `-2 m` times
/// that.
///
/// What it costs for two units and one vector: two multiply-adds, a product, an estimate, a correction, a product
/// and a multiply-add, and on another port a sum; 3 multiply-adds and half an estimate for each term.
#[inline(always)]
fn sums<E: Real, S: Simd<E>, const Q: usize, const N: usize>(
    simd: S,
    weights: &Weights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
) -> [[S::V; N]; Q] {
    let path = queries.reach.path(keys.reach);
    let units = weights.inverse.len();
    let mut totals = [[simd.zero(); N]; Q];
    for (chunk, start) in weights.starts.iter().enumerate() {
        let mut sums = [[simd.splat(*start); N]; Q];
        let chunk = chunk * CHUNK..units.min((chunk + 1) * CHUNK);
        match path {
            Path::Fast => {
                add_chunk::<E, S, Q, N, false>(simd, weights, queries, keys, chunk, &mut sums)
            }
            Path::Bounded => {
                add_chunk::<E, S, Q, N, true>(simd, weights, queries, keys, chunk, &mut sums);
            }
            Path::Slow => slow(simd, weights, queries, keys, chunk, &mut sums),
        }
        for q in 0..Q {
            for n in 0..N {
                totals[q][n] = simd.add(totals[q][n], sums[q][n]);
            }
        }
    }
    for &unit in &weights.with_excess {
        let excess = simd.splat(weights.excess[unit]);
        for (q, totals) in totals.iter_mut().enumerate() {
            for (n, total) in totals.iter_mut().enumerate() {
                let r = unit_reciprocal(simd, weights, queries, keys, unit, [q, n]);
                *total = simd.mul_add(excess, r, *total);
            }
        }
    }
    totals
}

/// `1 / d` of one unit, for query `q` and vector `n`.
#[inline(always)]
fn unit_reciprocal<E: Real, S: Simd<E>, const Q: usize>(
    simd: S,
    weights: &Weights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
    unit: usize,
    [q, n]: [usize; 2],
) -> S::V {
    let query = queries.packed[unit * Q + q];
    let key = simd.load(&keys.packed[unit * BLOCK + n * S::LANES..]);
    let inverse = weights.inverse[unit];
    simd.reciprocal(denominator::<E, S, true>(
        simd,
        query,
        key,
        simd.splat(inverse),
    ))
}

/// `(m / w) (1 + a c)`
#[inline(always)]
fn denominator<E: Real, S: Simd<E>, const BOUNDED: bool>(
    simd: S,
    query: E,
    key: S::V,
    inverse: S::V,
) -> S::V {
    let d = simd.mul_add(simd.splat(query), key, inverse);
    if BOUNDED {
        bounded_denominator(simd, d)
    } else {
        d
    }
}

#[inline(always)]
fn add_chunk<E: Real, S: Simd<E>, const Q: usize, const N: usize, const BOUNDED: bool>(
    simd: S,
    weights: &Weights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
    chunk: Range<usize>,
    sums: &mut [[S::V; N]; Q],
) {
    let queries = &queries.packed[chunk.start * Q..chunk.end * Q];
    let keys = &keys.packed[chunk.start * BLOCK..chunk.end * BLOCK];
    let inverse = &weights.inverse[chunk];
    let pairs = queries
        .chunks_exact(2 * Q)
        .zip(keys.chunks_exact(2 * BLOCK));
    for ((queries, keys), inverse) in pairs.zip(inverse.chunks_exact(2)) {
        pair::<E, S, Q, N, BOUNDED>(simd, queries, keys, inverse, sums);
    }
    if let [inverse] = inverse.chunks_exact(2).remainder() {
        let queries = &queries[queries.len() - Q..];
        let keys = &keys[keys.len() - BLOCK..];
        single::<E, S, Q, N, BOUNDED>(simd, queries, keys, *inverse, sums);
    }
}

#[inline(always)]
fn pair<E: Real, S: Simd<E>, const Q: usize, const N: usize, const BOUNDED: bool>(
    simd: S,
    queries: &[E],
    keys: &[E],
    inverse: &[E],
    sums: &mut [[S::V; N]; Q],
) {
    let first = simd.splat(inverse[0]);
    let second = simd.splat(inverse[1]);
    for n in 0..N {
        let key_1 = simd.load(&keys[n * S::LANES..]);
        let key_2 = simd.load(&keys[BLOCK + n * S::LANES..]);
        for q in 0..Q {
            let d1 = denominator::<E, S, BOUNDED>(simd, queries[q], key_1, first);
            let d2 = denominator::<E, S, BOUNDED>(simd, queries[Q + q], key_2, second);
            sums[q][n] = simd.add_quotient(simd.add(d1, d2), simd.mul(d1, d2), sums[q][n]);
        }
    }
}

#[inline(always)]
fn single<E: Real, S: Simd<E>, const Q: usize, const N: usize, const BOUNDED: bool>(
    simd: S,
    queries: &[E],
    keys: &[E],
    inverse: E,
    sums: &mut [[S::V; N]; Q],
) {
    let inverse = simd.splat(inverse);
    for n in 0..N {
        let key = simd.load(&keys[n * S::LANES..]);
        for q in 0..Q {
            let d = denominator::<E, S, BOUNDED>(simd, queries[q], key, inverse);
            sums[q][n] = simd.add_reciprocal(d, sums[q][n]);
        }
    }
}

/// Some units of a row, zeros after them.
fn copy_units<E: Real>(row: Row<E>, range: Range<usize>) -> [E; CHUNK] {
    let mut units = [E::ZERO; CHUNK];
    let len = range.len();
    row.part(range).copy_to(&mut units[..len]);
    units
}

/// The same sums in the same order, where some elements come together by the tanh of their sum: then their pair of units
/// is evaluated so.
#[inline(always)]
fn slow<E: Real, S: Simd<E>, const Q: usize, const N: usize>(
    simd: S,
    weights: &Weights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
    chunk: Range<usize>,
    sums: &mut [[S::V; N]; Q],
) {
    let key_units = keys.units(chunk.clone());
    let query_units: [[E; CHUNK]; Q] =
        std::array::from_fn(|q| copy_units(queries.rows[q], chunk.clone()));
    for first in chunk.clone().step_by(2) {
        let both = first..chunk.end.min(first + 2);
        let within = both.start - chunk.start..both.end - chunk.start;
        let before = *sums;
        add_chunk::<E, S, Q, N, true>(simd, weights, queries, keys, both.clone(), sums);
        for q in 0..Q {
            let query = &query_units[q][within.clone()];
            let pairs = query.iter().zip(&key_units[within.clone()]);
            let mut is_apart = None;
            for apart in pairs.clone().filter_map(|(x, keys)| apart(*x, keys)) {
                let either: &mut [E; BLOCK] = is_apart.get_or_insert([E::ZERO; BLOCK]);
                for (either, apart) in either.iter_mut().zip(apart) {
                    *either += apart;
                }
            }
            let Some(is_apart) = is_apart else {
                continue;
            };
            let mut direct = before[q];
            for (unit, (x, key)) in both.clone().zip(pairs) {
                for (n, direct) in direct.iter_mut().enumerate() {
                    let sum = simd.add(simd.splat(*x), simd.load(&key[n * S::LANES..]));
                    let relative = simd.splat(weights.relative[unit]);
                    *direct = simd.mul_add(relative, complement(simd, sum), *direct);
                    if weights.excess[unit] != E::ZERO {
                        // What will be taken back of every sum was not added to this one.
                        let r = unit_reciprocal(simd, weights, queries, keys, unit, [q, n]);
                        let excess = simd.splat(weights.excess[unit]);
                        *direct = simd.neg_mul_add(excess, r, *direct);
                    }
                }
            }
            for n in 0..N {
                let flags = simd.load(&is_apart[n * S::LANES..]);
                let take = simd.less(simd.zero(), flags);
                sums[q][n] = simd.select(take, direct[n], sums[q][n]);
            }
        }
    }
}
