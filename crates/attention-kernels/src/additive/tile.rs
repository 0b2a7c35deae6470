//! The scores of a few queries with one block of keys.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::exact::ExactTerms;
use super::pack::{PackedQueries, UnitWeights};
use super::range::{Evaluation, Magnitude};
use super::tanh::{Bounded, Near, Tanh};
use crate::rows::Row;
use crate::tiles::{KEY_LANES, QUERY_TILE, UNIT_CHUNK};
use crate::{HeadIndex, Rows};

/// One block of keys.
pub(super) struct KeyBlock<'a, E> {
    /// `e^(2k)`, `[units][KEY_LANES]`.
    packed: &'a [E],
    magnitude: Magnitude,
    /// The place of the keys themselves, for exact evaluation.
    keys: Rows<'a, E>,
    at: HeadIndex,
    first: usize,
}

impl<'a, E: Real> KeyBlock<'a, E> {
    /// The keys of one head from `first` on, with the result of `pack_keys` for them.
    #[inline(always)]
    pub(super) fn new(keys: Rows<'a, E>, at: HeadIndex, first: usize, packed: &'a [E]) -> Self {
        let [_, _, _, units] = keys.shape();
        Self {
            packed: &packed[..units * KEY_LANES],
            magnitude: Magnitude::from_element(packed[units * KEY_LANES]),
            keys,
            at,
            first,
        }
    }

    /// Some units of the keys themselves, `[units][KEY_LANES]`; 0 beyond the last key.
    pub(super) fn units(&self, range: Range<usize>) -> [[E; KEY_LANES]; UNIT_CHUNK] {
        let [_, _, num_keys, _] = self.keys.shape();
        let mut units = [[E::ZERO; KEY_LANES]; UNIT_CHUNK];
        for lane in 0..KEY_LANES.min(num_keys - self.first) {
            let row = self.keys.row(self.at, self.first + lane);
            let row = copy_units(row, range.clone());
            for (unit, key) in units.iter_mut().zip(row) {
                unit[lane] = key;
            }
        }
        units
    }
}

/// The queries of one tile.
pub(super) struct QueryTile<'a, E, const Q: usize> {
    /// `(m / w) e^(2q)`, `[units][Q]`.
    pub packed: &'a [E],
    /// The queries themselves, for exact evaluation.
    pub rows: [Row<'a, E>; Q],
    pub magnitude: Magnitude,
}

/// The place of the scores: query `q` of a tile writes to `to[q * stride..][..width]`, times `factor`.
pub(super) struct Target<'a, E> {
    pub to: &'a mut [E],
    pub stride: usize,
    /// At most [`KEY_LANES`].
    pub width: usize,
    /// `-2 m` for the scores themselves.
    pub factor: E,
}

/// Writes the scores of a tile of queries with a block of keys.
#[inline(always)]
pub(super) fn tile_scores<E: Real, S: Simd<E>>(
    simd: S,
    weights: &UnitWeights<E>,
    queries: &PackedQueries<E>,
    tile: Range<usize>,
    keys: &KeyBlock<E>,
    target: Target<E>,
) {
    macro_rules! store {
        ($queries:expr, $vectors:expr) => {{
            let queries = queries.tile::<{ $queries }>(tile.start);
            let sums = sums::<E, S, { $queries }, $vectors>(simd, weights, &queries, keys);
            target.store(simd, sums);
        }};
    }
    macro_rules! store_tile {
        ($vectors:expr) => {
            if tile.len() == QUERY_TILE {
                store!(QUERY_TILE, $vectors)
            } else {
                store!(1, $vectors)
            }
        };
    }
    // The instruction set determines the number of vectors in a block of keys; the other cases are not compiled.
    match const { KEY_LANES / S::LANES } {
        1 => store_tile!(1),
        2 => store_tile!(2),
        _ => store_tile!(4),
    }
}

impl<E: Real> Target<'_, E> {
    #[inline(always)]
    fn store<S: Simd<E>, const Q: usize, const N: usize>(self, simd: S, sums: [[S::V; N]; Q]) {
        let factor = simd.splat(self.factor);
        for (q, sums) in sums.into_iter().enumerate() {
            let row = &mut self.to[q * self.stride..][..self.width];
            if let Ok(row) = <&mut [E; KEY_LANES]>::try_from(&mut *row) {
                for (row, sums) in row.chunks_exact_mut(S::LANES).zip(sums) {
                    simd.store(simd.mul(factor, sums), row);
                }
                continue;
            }
            for (row, sums) in row.chunks_mut(S::LANES).zip(sums) {
                simd.store_partial(simd.mul(factor, sums), row);
            }
        }
    }
}

/// `sum_u w[u] / m * (r[i,j,u] - 1/2)`, for `Q` queries and the keys of a block in `N` vectors: the score, divided by
/// `-2 m`. If weights are large, `-sum_u w[u] / m * tanh`: the score, divided by `-m`.
///
/// Costs for two units and one vector: two multiply-adds, a product, an estimate, a correction, a product and a
/// multiply-add, and on another port a sum; that is 3 multiply-adds and half an estimate per term.
#[inline(always)]
fn sums<E: Real, S: Simd<E>, const Q: usize, const N: usize>(
    simd: S,
    weights: &UnitWeights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
) -> [[S::V; N]; Q] {
    if weights.are_large {
        sums_of::<E, S, Products, Q, N>(simd, weights, queries, keys)
    } else {
        sums_of::<E, S, Quotients, Q, N>(simd, weights, queries, keys)
    }
}

/// The terms that are summed.
pub(super) trait Terms {
    /// Adds the terms of the units `chunk` to the sums.
    fn add<E: Real, S: Simd<E>, T: Tanh, const Q: usize, const N: usize>(
        simd: S,
        weights: &UnitWeights<E>,
        queries: &QueryTile<E, Q>,
        keys: &KeyBlock<E>,
        chunk: Range<usize>,
        sums: &mut [[S::V; N]; Q],
    );
}

/// [`sums`] with these terms.
#[inline(always)]
fn sums_of<E: Real, S: Simd<E>, M: Terms, const Q: usize, const N: usize>(
    simd: S,
    weights: &UnitWeights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
) -> [[S::V; N]; Q] {
    let evaluation = queries.magnitude.with(keys.magnitude);
    let units = weights.inverse.len();
    let mut totals = [[simd.zero(); N]; Q];
    for (chunk, start) in weights.starts.iter().enumerate() {
        let mut sums = [[simd.splat(*start); N]; Q];
        let chunk = chunk * UNIT_CHUNK..units.min((chunk + 1) * UNIT_CHUNK);
        match evaluation {
            Evaluation::Near => {
                M::add::<E, S, Near, Q, N>(simd, weights, queries, keys, chunk, &mut sums);
            }
            Evaluation::Bounded => {
                M::add::<E, S, Bounded, Q, N>(simd, weights, queries, keys, chunk, &mut sums);
            }
            Evaluation::Exact => {
                let mut elements = [[E::ZERO; KEY_LANES]; Q];
                for (sums, elements) in sums.iter().zip(&mut elements) {
                    for (&sum, to) in sums.iter().zip(elements.chunks_exact_mut(S::LANES)) {
                        simd.store(sum, to);
                    }
                }
                simd.call(ExactTerms {
                    weights,
                    queries,
                    keys,
                    chunk,
                    sums: &mut elements,
                });
                for (sums, elements) in sums.iter_mut().zip(&elements) {
                    for (sum, from) in sums.iter_mut().zip(elements.chunks_exact(S::LANES)) {
                        *sum = simd.load(from);
                    }
                }
            }
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
pub(super) fn unit_reciprocal<E: Real, S: Simd<E>, const Q: usize>(
    simd: S,
    weights: &UnitWeights<E>,
    queries: &QueryTile<E, Q>,
    keys: &KeyBlock<E>,
    unit: usize,
    [q, n]: [usize; 2],
) -> S::V {
    let query = simd.splat(queries.packed[unit * Q + q]);
    let key = simd.load(&keys.packed[unit * KEY_LANES + n * S::LANES..]);
    let d = simd.mul_add(query, key, simd.splat(weights.inverse[unit]));
    simd.reciprocal(Bounded::denominator(simd, d))
}

/// `1 / d`, for two units at a time, and for a last unit by itself.
///
/// Time with a quotient per unit, relative to the time with these, for a decoding step and for attention of 128
/// queries: 1.22 and 1.18 (`cargo bench -p attention-benches --bench bets`).
pub(super) struct Quotients;

impl Terms for Quotients {
    #[inline(always)]
    fn add<E: Real, S: Simd<E>, T: Tanh, const Q: usize, const N: usize>(
        simd: S,
        weights: &UnitWeights<E>,
        queries: &QueryTile<E, Q>,
        keys: &KeyBlock<E>,
        chunk: Range<usize>,
        sums: &mut [[S::V; N]; Q],
    ) {
        let queries = &queries.packed[chunk.start * Q..chunk.end * Q];
        let keys = &keys.packed[chunk.start * KEY_LANES..chunk.end * KEY_LANES];
        let inverse = &weights.inverse[chunk];
        let key_pairs = keys.chunks_exact(2 * KEY_LANES);
        let pairs = queries.chunks_exact(2 * Q).zip(key_pairs);
        for ((queries, keys), inverse) in pairs.zip(inverse.chunks_exact(2)) {
            let (inverse_1, inverse_2) = (simd.splat(inverse[0]), simd.splat(inverse[1]));
            for q in 0..Q {
                let (query_1, query_2) = (simd.splat(queries[q]), simd.splat(queries[Q + q]));
                for n in 0..N {
                    let key_1 = simd.load(&keys[n * S::LANES..]);
                    let key_2 = simd.load(&keys[KEY_LANES + n * S::LANES..]);
                    let d1 = simd.mul_add(query_1, key_1, inverse_1);
                    let d2 = simd.mul_add(query_2, key_2, inverse_2);
                    let d1 = T::denominator(simd, d1);
                    let d2 = T::denominator(simd, d2);
                    sums[q][n] = simd.add_quotient(simd.add(d1, d2), simd.mul(d1, d2), sums[q][n]);
                }
            }
        }
        if let [inverse] = inverse.chunks_exact(2).remainder() {
            let queries = &queries[queries.len() - Q..];
            let keys = &keys[keys.len() - KEY_LANES..];
            let inverse = simd.splat(*inverse);
            for n in 0..N {
                let key = simd.load(&keys[n * S::LANES..]);
                for q in 0..Q {
                    let d = simd.mul_add(simd.splat(queries[q]), key, inverse);
                    sums[q][n] = simd.add_reciprocal(T::denominator(simd, d), sums[q][n]);
                }
            }
        }
    }
}

/// `-w / m tanh`.
pub(super) struct Products;

impl Terms for Products {
    #[inline(always)]
    fn add<E: Real, S: Simd<E>, T: Tanh, const Q: usize, const N: usize>(
        simd: S,
        weights: &UnitWeights<E>,
        queries: &QueryTile<E, Q>,
        keys: &KeyBlock<E>,
        chunk: Range<usize>,
        sums: &mut [[S::V; N]; Q],
    ) {
        for unit in chunk {
            let weight = simd.splat(weights.relative[unit]);
            let query: [S::V; Q] =
                std::array::from_fn(|q| simd.splat(queries.packed[unit * Q + q]));
            let key: [S::V; N] =
                std::array::from_fn(|n| simd.load(&keys.packed[unit * KEY_LANES + n * S::LANES..]));
            for (sums, query) in sums.iter_mut().zip(query) {
                for (sum, key) in sums.iter_mut().zip(key) {
                    let tanh = T::negative_tanh_of_near(simd, query, key);
                    *sum = simd.mul_add(weight, tanh, *sum);
                }
            }
        }
    }
}

/// Some units of a row, followed by zeros.
pub(super) fn copy_units<E: Real>(row: Row<E>, range: Range<usize>) -> [E; UNIT_CHUNK] {
    let mut units = [E::ZERO; UNIT_CHUNK];
    let len = range.len();
    row.part(range).copy_to(&mut units[..len]);
    units
}
