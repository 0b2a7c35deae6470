//! Vectors of several rows at a time.
//!
//! Loops, not `from_fn` or `map`: a closure that is not inlined is compiled for the wrong instruction set.

use std::ops::Range;

use crate::Real;
use crate::simd::{Simd, prefetch};

/// A vector of each of `K` rows that are `stride` apart, padded with zeros at the ends of rows.
#[inline(always)]
pub(super) fn load_rows<E: Real, S: Simd<E>, const K: usize>(
    simd: S,
    rows: &[E],
    stride: usize,
    lanes: &Range<usize>,
) -> [S::V; K] {
    let mut vectors = [simd.zero(); K];
    load_rows_into(simd, rows, stride, lanes, &mut vectors);
    vectors
}

/// As [`load_rows`], one row for each vector of `vectors`.
#[inline(always)]
pub(super) fn load_rows_into<E: Real, S: Simd<E>>(
    simd: S,
    rows: &[E],
    stride: usize,
    lanes: &Range<usize>,
    vectors: &mut [S::V],
) {
    for (row, vector) in vectors.iter_mut().enumerate() {
        *vector = simd.load_partial(&rows[row * stride + lanes.start..row * stride + lanes.end]);
    }
}

/// Writes each vector to `lanes` of its row; rows are `stride` apart.
#[inline(always)]
pub(super) fn store_rows<E: Real, S: Simd<E>>(
    simd: S,
    vectors: &[S::V],
    rows: &mut [E],
    stride: usize,
    lanes: &Range<usize>,
) {
    for (row, &vector) in vectors.iter().enumerate() {
        let part = row * stride + lanes.start..row * stride + lanes.end;
        simd.store_partial(vector, &mut rows[part]);
    }
}

/// A vector of the same row of each of `N` matrices; zeros for an absent matrix.
#[inline(always)]
pub(super) fn load_states<E: Real, S: Simd<E>, const N: usize>(
    simd: S,
    states: &[&[E]; N],
    lanes: &Range<usize>,
) -> [S::V; N] {
    let mut vectors = [simd.zero(); N];
    for (state, vector) in states.iter().zip(&mut vectors) {
        if !state.is_empty() {
            *vector = simd.load_partial(&state[lanes.clone()]);
        }
    }
    vectors
}

/// Prefetches the cache lines with element `at` of `count` rows, `stride` apart.
#[inline(always)]
pub(super) fn prefetch_rows<E>(rows: *const E, stride: usize, count: usize, at: usize) {
    for row in 0..count {
        prefetch(rows.wrapping_add(row * stride + at));
    }
}
