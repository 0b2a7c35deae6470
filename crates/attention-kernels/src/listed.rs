//! One row against listed rows: what few queries do with keys and values, without packing them.

use crate::rows::{Fetch, Head};
use crate::simd::Simd;
use crate::{Real, Rows};

/// Vectors of a row that [`weighted_sum`] keeps in registers.
const VECTORS: usize = 4;

/// `out[n] = row . rows[keys[n]]`
#[inline(always)]
pub(crate) fn dots<E: Real, S: Simd<E>>(
    simd: S,
    row: &[E],
    keys: &[usize],
    rows: &Rows<E>,
    place: [usize; 2],
    out: &mut [E],
) {
    match rows.head(place) {
        Head::Whole(rows) => dots_of(simd, row, keys, rows, out),
        Head::Half(rows) => dots_of(simd, row, keys, rows, out),
    }
}

#[inline(always)]
fn dots_of<E: Real, S: Simd<E>>(
    simd: S,
    row: &[E],
    keys: &[usize],
    rows: impl Fetch<E>,
    out: &mut [E],
) {
    let whole = row.len() - row.len() % S::LANES;
    let mut scratch: [Vec<E>; 4] = Default::default();
    let mut n = 0;
    // Four at a time, so that their sums do not wait for each other.
    while n < keys.len() {
        let count = (keys.len() - n).min(4);
        // The last ones may be listed again; what they give is not stored.
        let mut others: [&[E]; 4] = [&[]; 4];
        for (r, scratch) in scratch.iter_mut().enumerate() {
            let key = keys[n + r.min(count - 1)];
            others[r] = rows.fetch(key, 0..row.len(), scratch);
        }
        let mut sums = [simd.zero(); 4];
        for x in (0..whole).step_by(S::LANES) {
            let a = simd.load(&row[x..]);
            for r in 0..4 {
                sums[r] = simd.mul_add(a, simd.load(&others[r][x..]), sums[r]);
            }
        }
        if whole < row.len() {
            let a = simd.load_partial(&row[whole..]);
            for r in 0..4 {
                sums[r] = simd.mul_add(a, simd.load_partial(&others[r][whole..]), sums[r]);
            }
        }
        for r in 0..count {
            out[n + r] = simd.sum(sums[r]);
        }
        n += count;
    }
}

/// `out += factor * sum_n weights[n] rows[keys[n]]`
#[inline(always)]
pub(crate) fn weighted_sum<E: Real, S: Simd<E>>(
    simd: S,
    keys: &[usize],
    weights: &[E],
    rows: &Rows<E>,
    place: [usize; 2],
    factor: E,
    out: &mut [E],
) {
    match rows.head(place) {
        Head::Whole(rows) => weighted_sum_of(simd, keys, weights, rows, factor, out),
        Head::Half(rows) => weighted_sum_of(simd, keys, weights, rows, factor, out),
    }
}

#[inline(always)]
fn weighted_sum_of<E: Real, S: Simd<E>>(
    simd: S,
    keys: &[usize],
    weights: &[E],
    rows: impl Fetch<E>,
    factor: E,
    out: &mut [E],
) {
    let factor = simd.splat(factor);
    let mut scratch = Vec::new();
    for (block, out) in out.chunks_mut(VECTORS * S::LANES).enumerate() {
        let first = block * VECTORS * S::LANES;
        if out.len() == VECTORS * S::LANES {
            let mut sums = [simd.zero(); VECTORS];
            for (&key, &weight) in keys.iter().zip(weights) {
                let part = first..first + VECTORS * S::LANES;
                let row = rows.fetch(key, part, &mut scratch);
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
                for (&key, &weight) in keys.iter().zip(weights) {
                    let part = first..first + out.len();
                    let row = rows.fetch(key, part, &mut scratch);
                    sum = simd.mul_add(simd.splat(weight), simd.load_partial(row), sum);
                }
                simd.store_partial(simd.mul_add(sum, factor, simd.load_partial(out)), out);
            }
        }
    }
}

/// `out[keys[n]] += factor * weights[n] * row`
#[inline(always)]
pub(crate) fn add_multiples<E: Real, S: Simd<E>>(
    simd: S,
    keys: &[usize],
    weights: &[E],
    factor: E,
    row: &[E],
    out: &mut [E],
) {
    let whole = row.len() - row.len() % S::LANES;
    for (&key, &weight) in keys.iter().zip(weights) {
        let weight = simd.splat(weight * factor);
        let out = &mut out[key * row.len()..(key + 1) * row.len()];
        let (row, row_rest) = row.split_at(whole);
        let (out, out_rest) = out.split_at_mut(whole);
        for (from, to) in row
            .chunks_exact(S::LANES)
            .zip(out.chunks_exact_mut(S::LANES))
        {
            simd.store(simd.mul_add(weight, simd.load(from), simd.load(to)), to);
        }
        if !out_rest.is_empty() {
            let sum = simd.mul_add(
                weight,
                simd.load_partial(row_rest),
                simd.load_partial(out_rest),
            );
            simd.store_partial(sum, out_rest);
        }
    }
}
