//! Queries, keys and weights in the order in which the kernel reads them.

use std::ops::Range;

use super::BLOCK;
use super::range::{MOST_INVERSE, Reach, exponentials};
use super::tile::QueryTile;
use crate::Rows;
use crate::rows::Row;
use crate::simd::{Real, Simd};

/// Units that are summed by themselves. The terms `w r` of one sign add up to much more than `w tanh` do; a sum that
/// starts at half the chunk's weight stays small, and so does its rounding.
pub(super) const CHUNK: usize = 32;

/// The weights, seen from the denominator.
#[derive(Debug)]
pub(super) struct Weights<E> {
    /// `m / w[u]`; of weights far below `m`, `e^13` with their sign, as if they were larger.
    pub inverse: Vec<E>,
    /// `w[u] / m`
    pub relative: Vec<E>,
    /// What `1 / d[u]` must be multiplied with to take back what `inverse` adds to the weight; mostly 0.
    pub excess: Vec<E>,
    /// The units for which it is not.
    pub with_excess: Vec<usize>,
    /// `m`, the largest magnitude; 0 if all are, 1 if one is infinite.
    pub largest: E,
    /// Of each chunk of [`CHUNK`] units, `-sum w / (2 m)`.
    pub starts: Vec<E>,
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
        let largest = if largest.is_finite() { largest } else { E::ONE };
        let unit = if largest > E::ZERO { largest } else { E::ONE };
        let most = E::from_f64(MOST_INVERSE);
        let mut weights = Self {
            inverse: Vec::with_capacity(weight.len()),
            relative: weight.iter().map(|w| *w / unit).collect(),
            excess: vec![E::ZERO; weight.len()],
            with_excess: Vec::new(),
            largest,
            starts: Vec::new(),
        };
        for (index, w) in weight.iter().enumerate() {
            let is_far_below = !(w.abs() * most >= unit && w.abs() <= unit);
            let inverse = match (is_far_below, *w < E::ZERO) {
                (false, _) => unit / *w,
                (true, false) => most,
                (true, true) => -most,
            };
            weights.inverse.push(inverse);
            if is_far_below {
                weights.excess[index] = weights.relative[index] * inverse - E::ONE;
                weights.with_excess.push(index);
            }
        }
        let start = |chunk: &[E]| {
            let sum: f64 = chunk.iter().map(|w| w.to_f64()).sum();
            E::from_f64(-0.5 * sum / unit.to_f64())
        };
        weights.starts = weight.chunks(CHUNK).map(start).collect();
        weights
    }
}

/// The numbers in one packed block of keys of `units` hidden units.
pub(crate) fn packed_block_len(units: usize) -> usize {
    (units + 1) * BLOCK
}

/// Packs one block of keys: `e^(2k)` as `[units][BLOCK]`, and a last row whose first number is the [`Reach`] of the
/// block. Keys outside of `visible` become 1 whatever they hold.
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
    let mut reach = Reach::Near;
    for lane in 0..BLOCK {
        let key = first + lane;
        let row = &mut scratch[lane * units..(lane + 1) * units];
        match key < num_keys && visible.contains(&key) {
            true => reach = reach.max(exponentials(simd, keys.row(batch, head, key), row)),
            false => row.fill(E::ONE),
        }
    }
    transpose(simd, scratch, units, &mut to[..units * BLOCK]);
    to[units * BLOCK..].fill(E::ZERO);
    to[units * BLOCK] = reach.to_number();
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
    /// Of each query.
    reach: Vec<Reach>,
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
        self.reach.clear();
        for query in 0..self.rows.len() {
            let tile = self.tile_len(query - query % TILE);
            let first = query - query % tile;
            let reach = exponentials(simd, self.rows[query], &mut self.scratch);
            self.reach.push(reach);
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
            reach: self.reach[query..query + Q]
                .iter()
                .fold(Reach::Near, |most, reach| most.max(*reach)),
        }
    }
}
