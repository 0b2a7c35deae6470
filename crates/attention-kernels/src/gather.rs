//! One row against gathered rows: decoding reads keys and values this way, without packing them.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use crate::rows::{Fetch, Head};
use crate::tiles::{GATHER_ROWS, GATHER_VECTORS};
use crate::{Dropout, HeadIndex, Rows};

/// The keys that one query attends to, with data for each.
#[derive(Default)]
pub(crate) struct AttendedKeys<E> {
    pub keys: Vec<usize>,
    pub weights: Vec<E>,
    /// The factors by which dropout multiplies the weights.
    pub factors: Vec<E>,
    /// The factors of all keys between the first and the last.
    row: Vec<E>,
}

impl<E: Real> AttendedKeys<E> {
    /// Draws the factors of dropout: `kept`, or 0 for a dropped weight; 1 without dropout.
    #[inline(always)]
    pub(crate) fn draw(&mut self, dropout: Option<Dropout>, at: HeadIndex, query: usize, kept: E) {
        self.factors.clear();
        let (Some(dropout), Some(&first), Some(&last)) =
            (dropout, self.keys.first(), self.keys.last())
        else {
            self.factors.resize(self.keys.len(), E::ONE);
            return;
        };
        self.row.resize(last + 1 - first, E::ZERO);
        dropout.fill(at, query, first, kept, &mut self.row);
        let factors = self.keys.iter().map(|key| self.row[key - first]);
        self.factors.extend(factors);
    }

    /// Multiplies the weights with the factors.
    #[inline(always)]
    pub(crate) fn apply_dropout(&mut self) {
        for (weight, &factor) in self.weights.iter_mut().zip(&self.factors) {
            *weight = *weight * factor;
        }
    }

    /// The rows of the keys, or of their values.
    pub(crate) fn rows<'a>(&'a self, rows: &Rows<'a, E>, at: HeadIndex) -> Gathered<'a, E> {
        Gathered {
            rows: *rows,
            at,
            indices: &self.keys,
        }
    }
}

/// Some rows of one head, by their indices.
pub(crate) struct Gathered<'a, E> {
    pub rows: Rows<'a, E>,
    pub at: HeadIndex,
    pub indices: &'a [usize],
}

/// The term that a vector of units of two rows adds to their score.
pub(crate) trait RowTerm<E: Real>: Copy {
    /// Adds the terms of `units`; only at the end of a row are these fewer than the lanes.
    fn add_to<S: Simd<E>>(self, simd: S, units: Range<usize>, rows: [S::V; 2], sum: S::V) -> S::V;
}

/// The term of a dot product.
#[derive(Clone, Copy)]
struct Product;

impl<E: Real> RowTerm<E> for Product {
    #[inline(always)]
    fn add_to<S: Simd<E>>(
        self,
        simd: S,
        _units: Range<usize>,
        [a, b]: [S::V; 2],
        sum: S::V,
    ) -> S::V {
        simd.mul_add(a, b, sum)
    }
}

impl<E: Real> Gathered<'_, E> {
    /// `out[n] = row . rows[indices[n]]`
    #[inline(always)]
    pub(crate) fn dots<S: Simd<E>>(self, simd: S, row: &[E], out: &mut [E]) {
        self.sums(simd, Product, row, out);
    }

    /// `out[n]` is the sum of the terms of `row` and `rows[indices[n]]`.
    #[inline(always)]
    pub(crate) fn sums<S: Simd<E>>(self, simd: S, term: impl RowTerm<E>, row: &[E], out: &mut [E]) {
        match self.rows.head(self.at) {
            Head::Whole(rows) => sums(simd, term, row, self.indices, rows, out),
            Head::Half(rows) => sums(simd, term, row, self.indices, rows, out),
        }
    }

    /// `out += factor * sum_n weights[n] rows[indices[n]]`
    #[inline(always)]
    pub(crate) fn weighted_sum<S: Simd<E>>(self, simd: S, weights: &[E], factor: E, out: &mut [E]) {
        match self.rows.head(self.at) {
            Head::Whole(rows) => weighted_sum(simd, self.indices, weights, rows, factor, out),
            Head::Half(rows) => weighted_sum(simd, self.indices, weights, rows, factor, out),
        }
    }
}

#[inline(always)]
fn sums<E: Real, S: Simd<E>>(
    simd: S,
    term: impl RowTerm<E>,
    row: &[E],
    indices: &[usize],
    rows: impl Fetch<E>,
    out: &mut [E],
) {
    let whole = row.len() - row.len() % S::LANES;
    let mut scratch: [Vec<E>; GATHER_ROWS] = Default::default();
    let mut n = 0;
    // Several keys at a time, so that their sums do not wait for each other.
    while n < indices.len() {
        let count = (indices.len() - n).min(GATHER_ROWS);
        // The last group may gather some keys again, whose results are not stored.
        let mut others: [&[E]; GATHER_ROWS] = [&[]; GATHER_ROWS];
        for (r, scratch) in scratch.iter_mut().enumerate() {
            let index = indices[n + r.min(count - 1)];
            others[r] = rows.fetch(index, 0..row.len(), scratch);
        }
        let mut sums = [simd.zero(); GATHER_ROWS];
        for x in (0..whole).step_by(S::LANES) {
            let a = simd.load(&row[x..]);
            for r in 0..GATHER_ROWS {
                let rows = [a, simd.load(&others[r][x..])];
                sums[r] = term.add_to(simd, x..x + S::LANES, rows, sums[r]);
            }
        }
        if whole < row.len() {
            let a = simd.load_partial(&row[whole..]);
            for r in 0..GATHER_ROWS {
                let rows = [a, simd.load_partial(&others[r][whole..])];
                sums[r] = term.add_to(simd, whole..row.len(), rows, sums[r]);
            }
        }
        for r in 0..count {
            out[n + r] = simd.sum(sums[r]);
        }
        n += count;
    }
}

#[inline(always)]
fn weighted_sum<E: Real, S: Simd<E>>(
    simd: S,
    indices: &[usize],
    weights: &[E],
    rows: impl Fetch<E>,
    factor: E,
    out: &mut [E],
) {
    let factor = simd.splat(factor);
    let mut scratch = Vec::new();
    for (block, out) in out.chunks_mut(GATHER_VECTORS * S::LANES).enumerate() {
        let first = block * GATHER_VECTORS * S::LANES;
        if out.len() == GATHER_VECTORS * S::LANES {
            let mut sums = [simd.zero(); GATHER_VECTORS];
            for (&index, &weight) in indices.iter().zip(weights) {
                let part = first..first + GATHER_VECTORS * S::LANES;
                let row = rows.fetch(index, part, &mut scratch);
                let weight = simd.splat(weight);
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.mul_add(weight, simd.load(&row[v * S::LANES..]), *sum);
                }
            }
            for (sum, out) in sums.into_iter().zip(out.chunks_exact_mut(S::LANES)) {
                simd.store(simd.mul_add(sum, factor, simd.load(out)), out);
            }
        } else {
            for (v, out) in out.chunks_mut(S::LANES).enumerate() {
                let first = first + v * S::LANES;
                let mut sum = simd.zero();
                for (&index, &weight) in indices.iter().zip(weights) {
                    let part = first..first + out.len();
                    let row = rows.fetch(index, part, &mut scratch);
                    sum = simd.mul_add(simd.splat(weight), simd.load_partial(row), sum);
                }
                simd.store_partial(simd.mul_add(sum, factor, simd.load_partial(out)), out);
            }
        }
    }
}

/// `out[indices[n]] += factor * weights[n] * row`
#[inline(always)]
pub(crate) fn add_multiples<E: Real, S: Simd<E>>(
    simd: S,
    indices: &[usize],
    weights: &[E],
    factor: E,
    row: &[E],
    out: &mut [E],
) {
    let (row, row_rest) = row.split_at(row.len() - row.len() % S::LANES);
    let size = row.len() + row_rest.len();
    for (&index, &weight) in indices.iter().zip(weights) {
        let weight = simd.splat(weight * factor);
        let out = &mut out[index * size..(index + 1) * size];
        let (out, out_rest) = out.split_at_mut(row.len());
        let vectors = row.chunks_exact(S::LANES);
        for (from, to) in vectors.zip(out.chunks_exact_mut(S::LANES)) {
            simd.store(simd.mul_add(weight, simd.load(from), simd.load(to)), to);
        }
        if !out_rest.is_empty() {
            let (from, to) = (simd.load_partial(row_rest), simd.load_partial(out_rest));
            simd.store_partial(simd.mul_add(weight, from, to), out_rest);
        }
    }
}
