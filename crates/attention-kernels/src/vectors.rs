//! Sums over slices.

use crate::simd::{Real, Simd};

/// `sum a b`, a sum for each lane and two of them by turns.
#[inline(always)]
pub(crate) fn dot<E: Real, S: Simd<E>>(simd: S, a: &[E], b: &[E]) -> E {
    let mut sums = [simd.zero(); 2];
    let chunks = a.chunks_exact(2 * S::LANES);
    let rest = chunks.remainder();
    let b_rest = &b[a.len() - rest.len()..a.len()];
    for (a, b) in chunks.zip(b.chunks_exact(2 * S::LANES)) {
        for (half, sum) in sums.iter_mut().enumerate() {
            let at = half * S::LANES;
            *sum = simd.mul_add(simd.load(&a[at..]), simd.load(&b[at..]), *sum);
        }
    }
    let mut sum = simd.add(sums[0], sums[1]);
    for (a, b) in rest.chunks(S::LANES).zip(b_rest.chunks(S::LANES)) {
        sum = simd.mul_add(simd.load_partial(a), simd.load_partial(b), sum);
    }
    simd.sum(sum)
}

/// `to += factor * from`
#[inline(always)]
pub(crate) fn add_scaled<E: Real, S: Simd<E>>(simd: S, factor: E, from: &[E], to: &mut [E]) {
    let factor = simd.splat(factor);
    let chunks = from.chunks_exact(S::LANES);
    let rest = chunks.remainder();
    let (to, to_rest) = to[..from.len()].split_at_mut(from.len() - rest.len());
    for (from, to) in chunks.zip(to.chunks_exact_mut(S::LANES)) {
        simd.store(simd.mul_add(factor, simd.load(from), simd.load(to)), to);
    }
    if !rest.is_empty() {
        let sum = simd.mul_add(factor, simd.load_partial(rest), simd.load_partial(to_rest));
        simd.store_partial(sum, to_rest);
    }
}
