//! Queries, keys and weights in the order in which the kernel reads them.

use std::ops::Range;

use cpu_kernels::simd::Simd;
use cpu_kernels::{Buffer, Real};

use super::range::{MOST_INVERSE, Magnitude, exponentials};
use super::tile::QueryTile;
use crate::rows::Row;
use crate::tiles::{KEY_LANES, UNIT_CHUNK, query_tiles};
use crate::{HeadIndex, Rows, tuning};

/// Weights with a larger norm are large.
///
/// A term `w (r - 1/2)` has an error of about 1e-7 of `w` however small `tanh` is, and a score one of 1e-7 of the norm:
/// for a norm above a few units, more than any other rounding. `w tanh` has an error of 1e-7 of itself, and takes a
/// quarter more time.
const LARGE_NORM: f64 = 2.0;

/// The weights of the hidden units, as the denominators need them.
#[derive(Debug)]
pub(super) struct UnitWeights<E> {
    /// Whether terms `w tanh` are summed instead of `w (r - 1/2)`; see [`LARGE_NORM`].
    pub are_large: bool,
    /// 1/2 if weights are large, else `m / w[u]`; for weights far below `m` it is `e^13` with their sign, as if they
    /// were larger.
    pub inverse: Vec<E>,
    /// `w[u] / m`
    pub relative: Vec<E>,
    /// The factor of `1 / d[u]` that compensates what `inverse` adds to the weight; mostly 0.
    pub excess: Vec<E>,
    /// The units whose `excess` is not 0.
    pub with_excess: Vec<usize>,
    /// `m`, the largest magnitude, or a quarter of the type's largest number if that is less; 0 if all weights are 0, 1
    /// if one is infinite.
    pub largest: E,
    /// Start values of the sums of each chunk of [`UNIT_CHUNK`] units, `-sum w / (2 m)`; 0 if weights are large.
    pub starts: Vec<E>,
}

impl<E: Real> UnitWeights<E> {
    /// `-2 m`, the factor of the sums of `w / m (r - 1/2)`; `-m` for sums of `-w / m tanh`.
    pub(super) fn factor(&self) -> E {
        if self.are_large {
            -self.largest
        } else {
            -(self.largest + self.largest)
        }
    }

    pub(super) fn new(weight: &[E]) -> Self {
        let larger = |most, w: &E| if w.abs() > most { w.abs() } else { most };
        let largest = weight.iter().fold(E::ZERO, larger);
        let largest = if largest.is_finite() { largest } else { E::ONE };
        // A score is a sum of weights times `2 m`, which must be finite.
        let quarter = E::from_f64(0.25);
        let limit = E::LARGEST * quarter;
        let largest = if largest > limit { limit } else { largest };
        let unit = if largest > E::ZERO { largest } else { E::ONE };
        let most = E::from_f64(MOST_INVERSE);
        let are_large = !tuning::has_quotients() || are_large(weight, largest);
        let mut weights = Self {
            are_large,
            inverse: Vec::with_capacity(weight.len()),
            relative: weight.iter().map(|w| *w / unit).collect(),
            excess: vec![E::ZERO; weight.len()],
            with_excess: Vec::new(),
            largest,
            starts: Vec::new(),
        };
        if are_large {
            weights.inverse.resize(weight.len(), E::from_f64(0.5));
            let chunks = weight.len().div_ceil(UNIT_CHUNK);
            weights.starts.resize(chunks, E::ZERO);
            return weights;
        }
        for (index, w) in weight.iter().enumerate() {
            let is_far_below = !(w.abs() * most >= unit && w.abs() * quarter <= unit);
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
        weights.starts = weight.chunks(UNIT_CHUNK).map(start).collect();
        weights
    }
}

/// Whether the norm of weights up to `largest` is [large](LARGE_NORM). A norm that is not finite is not large.
fn are_large<E: Real>(weight: &[E], largest: E) -> bool {
    let largest = largest.to_f64();
    // Rarely true of newly initialised weights.
    if largest * (weight.len() as f64).sqrt() <= LARGE_NORM {
        return false;
    }
    // Relative to the largest, whose square may overflow.
    let square = |w: &E| (w.to_f64() / largest).powi(2);
    let norm = weight.iter().map(square).sum::<f64>().sqrt();
    norm.is_finite() && norm * largest > LARGE_NORM
}

/// The number of elements in one packed block of keys with `units` hidden units.
pub(super) fn packed_block_len(units: usize) -> usize {
    (units + 1) * KEY_LANES
}

/// The shape of the packed blocks of keys `[batch, key_heads, keys, units]`.
pub(crate) fn packed_shape(keys: [usize; 4]) -> [usize; 4] {
    let [batch, key_heads, num_keys, units] = keys;
    let len = num_keys.div_ceil(KEY_LANES) * packed_block_len(units);
    [batch, key_heads, len / KEY_LANES, KEY_LANES]
}

/// The keys of one head.
pub(super) struct HeadKeys<'a, E> {
    pub rows: Rows<'a, E>,
    pub at: HeadIndex,
    /// The range from the first to the last key that some query attends to.
    pub attended: Range<usize>,
}

impl<E: Real> HeadKeys<'_, E> {
    /// Packs the keys `block * KEY_LANES..`: `e^(2k)` as `[units][KEY_LANES]`, and a last row whose first element is
    /// the block's [`Magnitude`]. Keys that no query attends to become 1, whatever they hold.
    #[inline(always)]
    pub(super) fn pack<S: Simd<E>>(
        &self,
        simd: S,
        block: usize,
        scratch: &mut Vec<E>,
        to: &mut [E],
    ) {
        let [_, _, num_keys, units] = self.rows.shape();
        let first = block * KEY_LANES;
        let mut magnitude = Magnitude::Near;
        let mut wide = Vec::new();
        let padded = units.next_multiple_of(S::LANES);
        scratch.resize(KEY_LANES * padded, E::ONE);
        for lane in 0..KEY_LANES {
            let key = first + lane;
            let row = &mut scratch[lane * padded..(lane + 1) * padded];
            if key < num_keys && self.attended.contains(&key) {
                let from = self.rows.row(self.at, key).read(&mut wide);
                magnitude = magnitude.max(exponentials(simd, from, row));
            } else {
                row.fill(E::ONE);
            }
        }
        transpose(simd, scratch, padded, &mut to[..units * KEY_LANES]);
        to[units * KEY_LANES..].fill(E::ZERO);
        to[units * KEY_LANES] = magnitude.to_element();
    }
}

/// Transposes the first `units` columns of `[KEY_LANES][stride]` to `[units][KEY_LANES]`: whole squares of vectors,
/// then the remaining units.
#[inline(always)]
fn transpose<E: Real, S: Simd<E>>(simd: S, from: &[E], stride: usize, to: &mut [E]) {
    let units = to.len() / KEY_LANES;
    let whole = units - units % S::LANES;
    for unit in (0..whole).step_by(S::LANES) {
        for lane in (0..KEY_LANES).step_by(S::LANES) {
            let from = &from[lane * stride + unit..];
            let to = &mut to[unit * KEY_LANES + lane..];
            simd.transpose(from, stride, to, KEY_LANES);
        }
    }
    for unit in whole..units {
        for lane in 0..KEY_LANES {
            to[unit * KEY_LANES + lane] = from[lane * stride + unit];
        }
    }
}

/// Some queries, packed in tiles of [`QUERY_TILE`]; queries that do not fill a tile are packed one by one.
#[derive(Default)]
pub(super) struct PackedQueries<'a, E> {
    rows: Vec<Row<'a, E>>,
    /// `(m / w) e^(2q)`: `[units][QUERY_TILE]` for each tile, then `[units]` for each remaining query.
    packed: Buffer<E>,
    /// Magnitudes of each query.
    magnitudes: Vec<Magnitude>,
    scratch: Vec<E>,
}

impl<'a, E: Real> PackedQueries<'a, E> {
    /// Packs queries, replacing the content.
    #[inline(always)]
    pub(super) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        queries: impl Iterator<Item = Row<'a, E>>,
        weights: &UnitWeights<E>,
    ) {
        let units = weights.inverse.len();
        self.rows.clear();
        self.rows.extend(queries);
        self.packed.of_len(self.rows.len() * units);
        self.scratch
            .resize(units.next_multiple_of(S::LANES), E::ZERO);
        self.magnitudes.clear();
        let mut wide = Vec::new();
        for tile in query_tiles(self.rows.len()) {
            let to = &mut self.packed[tile.start * units..tile.end * units];
            for (q, row) in self.rows[tile.clone()].iter().enumerate() {
                let magnitude = exponentials(simd, row.read(&mut wide), &mut self.scratch);
                self.magnitudes.push(magnitude);
                let pairs = self.scratch.iter().zip(&weights.inverse);
                for (to, (e, inverse)) in to.chunks_exact_mut(tile.len()).zip(pairs) {
                    to[q] = *e * *inverse;
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The `Q` queries from `query` on.
    #[inline(always)]
    pub(super) fn tile<const Q: usize>(&self, query: usize) -> QueryTile<'_, E, Q> {
        let units = self.packed.len() / self.rows.len();
        let magnitudes = self.magnitudes[query..query + Q].iter().copied();
        QueryTile {
            packed: &self.packed[query * units..(query + Q) * units],
            rows: std::array::from_fn(|q| self.rows[query + q]),
            magnitude: magnitudes.fold(Magnitude::Near, Magnitude::max),
        }
    }
}
