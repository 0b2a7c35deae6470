//! Queries, keys and weights in the order in which the kernel reads them.
//!
//! The bounds: `ln d1 d2` must stay below 88, so each of the two may reach 43.9. A weight's `m / |w|` takes at most 13
//! of that (weights down to 2.3e-6 of the largest), `1 + a c` at most `2 * 15 + ln 2` where `|2q|` and `|2k|` are
//! within 15.

use std::ops::Range;

use super::BLOCK;
use super::tile::QueryTile;
use crate::Rows;
use crate::rows::Row;
use crate::simd::{Real, Simd};

/// The largest `|2q|` and `|2k|` of the fast path.
const RANGE: f64 = 15.0;
/// The largest `m / |w|` of the fast path, `e^13`.
const WEIGHT_RANGE: f64 = 442_413.0;

/// Units that are summed by themselves. The terms `w r` of one sign add up to much more than `w tanh` do; a sum that
/// starts at half the chunk's weight stays small, and so does its rounding.
pub(super) const CHUNK: usize = 32;

/// Whether the fast path takes `x`, an element of a query or key. False for NaN.
#[inline(always)]
pub(super) fn in_range<E: Real>(x: E) -> bool {
    x.abs() < E::from_f64(0.5 * RANGE)
}

/// The weights, seen from the denominator.
#[derive(Debug)]
pub(super) struct Weights<E> {
    /// `m / w[u]`, or 1 outside of the range.
    pub inverse: Vec<E>,
    /// `w[u] / m`
    pub relative: Vec<E>,
    /// `m`, the largest magnitude; 1 if all are 0 or one is not finite.
    pub largest: E,
    /// Of each chunk of [`CHUNK`] units, `-sum w / (2 m)`.
    pub starts: Vec<E>,
    /// Whether the fast path takes the unit.
    pub in_range: Vec<bool>,
    /// Whether it takes all of them.
    pub all_in_range: bool,
}

impl<E: Real> Weights<E> {
    /// `-2 m`, what the sums of `w / m (r - 1/2)` are multiplied with.
    pub(super) fn factor(&self) -> E {
        -(self.largest + self.largest)
    }

    pub(super) fn new(weight: &[E]) -> Self {
        let largest = weight.iter().fold(
            E::ZERO,
            |most, w| if w.abs() > most { w.abs() } else { most },
        );
        let largest = match largest > E::ZERO && largest.is_finite() {
            true => largest,
            false => E::ONE,
        };
        let in_range: Vec<bool> = weight
            .iter()
            .map(|w| w.abs() * E::from_f64(WEIGHT_RANGE) >= largest && w.abs() <= largest)
            .collect();
        let start = |chunk: &[E]| {
            let sum: f64 = chunk.iter().map(|w| w.to_f64()).sum();
            E::from_f64(-0.5 * sum / largest.to_f64())
        };
        let inverse = |(w, in_range): (&E, &bool)| if *in_range { largest / *w } else { E::ONE };
        Self {
            inverse: weight.iter().zip(&in_range).map(inverse).collect(),
            relative: weight.iter().map(|w| *w / largest).collect(),
            largest,
            starts: weight.chunks(CHUNK).map(start).collect(),
            all_in_range: !in_range.contains(&false),
            in_range,
        }
    }
}

/// `e^(2x)`, or 1 where the fast path does not take `x`. Returns whether it took all.
#[inline(always)]
pub(super) fn exponentials<E: Real, S: Simd<E>>(simd: S, from: Row<E>, to: &mut [E]) -> bool {
    let mut wide = Vec::new();
    let from = from.read(&mut wide);
    let mut inside = simd.splat(E::ONE);
    let mut from_chunks = from.chunks_exact(S::LANES);
    let mut to_chunks = to.chunks_exact_mut(S::LANES);
    for (from, to) in from_chunks.by_ref().zip(to_chunks.by_ref()) {
        let (e, flags) = exponential(simd, simd.load(from));
        inside = simd.min(inside, flags);
        simd.store(e, to);
    }
    let rest = from_chunks.remainder();
    if !rest.is_empty() {
        let (e, flags) = exponential(simd, simd.load_partial(rest));
        inside = simd.min(inside, flags);
        simd.store_partial(e, to_chunks.into_remainder());
    }
    simd.sum(inside) == E::from_f64(S::LANES as f64)
}

/// `e^(2x)` and 1, or 1 and 0 where the fast path does not take `x`.
#[inline(always)]
fn exponential<E: Real, S: Simd<E>>(simd: S, x: S::V) -> (S::V, S::V) {
    let magnitude = simd.max(simd.sub(simd.zero(), x), x);
    // As `in_range`; NaN compares false.
    let inside = simd.less(magnitude, simd.splat(E::from_f64(0.5 * RANGE)));
    let one = simd.splat(E::ONE);
    let e = simd.select(inside, simd.exp(simd.add(x, x)), one);
    (e, simd.select(inside, one, simd.zero()))
}

/// The numbers in one packed block of keys of `units` hidden units.
pub(crate) fn packed_block_len(units: usize) -> usize {
    (units + 1) * BLOCK
}

/// Packs one block of keys: `e^(2k)` as `[units][BLOCK]`, and a last row whose first number is 1 if the fast path
/// takes all of the block and 0 if not. Keys outside of `visible` become 1 whatever they hold.
#[inline(always)]
pub(super) fn pack_keys<E: Real, S: Simd<E>>(
    simd: S,
    keys: &Rows<E>,
    [batch, head, block]: [usize; 3],
    visible: &Range<usize>,
    scratch: &mut [E],
    to: &mut [E],
) {
    let [_, _, num_keys, units] = keys.shape();
    let first = block * BLOCK;
    let mut all_in_range = true;
    for lane in 0..BLOCK {
        let key = first + lane;
        let row = &mut scratch[lane * units..(lane + 1) * units];
        match key < num_keys && visible.contains(&key) {
            true => all_in_range &= exponentials(simd, keys.row(batch, head, key), row),
            false => row.fill(E::ONE),
        }
    }
    transpose(simd, scratch, units, &mut to[..units * BLOCK]);
    to[units * BLOCK..].fill(E::ZERO);
    to[units * BLOCK] = if all_in_range { E::ONE } else { E::ZERO };
}

/// `[BLOCK][units]` to `[units][BLOCK]`: whole squares of vectors, then the rest of the units.
#[inline(always)]
fn transpose<E: Real, S: Simd<E>>(simd: S, from: &[E], units: usize, to: &mut [E]) {
    let whole = units - units % S::LANES;
    for unit in (0..whole).step_by(S::LANES) {
        for lane in (0..BLOCK).step_by(S::LANES) {
            let (from, to) = (&from[lane * units + unit..], &mut to[unit * BLOCK + lane..]);
            simd.transpose(from, units, to, BLOCK);
        }
    }
    for unit in whole..units {
        for lane in 0..BLOCK {
            to[unit * BLOCK + lane] = from[lane * units + unit];
        }
    }
}

/// Queries that share the loads of a block of keys: with one vector of sums each, they leave an AVX2 machine's
/// sixteen registers room for the rest.
pub(super) const TILE: usize = 4;

/// Some queries of one head, packed in tiles of [`TILE`]; those that do not fill a tile stand alone.
#[derive(Default)]
pub(super) struct PackedQueries<'a, E> {
    rows: Vec<Row<'a, E>>,
    /// `(m / w) e^(2q)`: `[units][TILE]` for each tile, then `[units]` for each of the rest.
    packed: Vec<E>,
    /// For each query, whether the fast path takes it.
    in_range: Vec<bool>,
    scratch: Vec<E>,
}

impl<'a, E: Real> PackedQueries<'a, E> {
    /// Packs the queries `range` of one head, in place of what was there.
    #[inline(always)]
    pub(super) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        queries: &Rows<'a, E>,
        [batch, head]: [usize; 2],
        range: Range<usize>,
        weights: &Weights<E>,
    ) {
        let units = weights.inverse.len();
        self.rows.clear();
        self.rows
            .extend(range.map(|query| queries.row(batch, head, query)));
        self.packed.resize(self.rows.len() * units, E::ZERO);
        self.scratch.resize(units, E::ZERO);
        self.in_range.clear();
        for query in 0..self.rows.len() {
            let tile = self.tile_len(query - query % TILE);
            let first = query - query % tile;
            let in_range = exponentials(simd, self.rows[query], &mut self.scratch);
            self.in_range.push(in_range);
            let to = &mut self.packed[first * units..(first + tile) * units];
            let pairs = self.scratch.iter().zip(&weights.inverse);
            for (to, (e, inverse)) in to.chunks_exact_mut(tile).zip(pairs) {
                to[query - first] = *e * *inverse;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many queries the tile that starts at `query` has.
    #[inline(always)]
    pub(super) fn tile_len(&self, query: usize) -> usize {
        if query + TILE <= self.rows.len() {
            TILE
        } else {
            1
        }
    }

    /// The `Q` queries from `query` on.
    #[inline(always)]
    pub(super) fn tile<const Q: usize>(&self, query: usize) -> QueryTile<'_, E, Q> {
        let units = self.packed.len() / self.rows.len();
        QueryTile {
            packed: &self.packed[query * units..(query + Q) * units],
            rows: std::array::from_fn(|q| self.rows[query + q]),
            in_range: self.in_range[query..query + Q].iter().all(|&x| x),
        }
    }
}
