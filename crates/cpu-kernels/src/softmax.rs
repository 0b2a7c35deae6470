//! The softmax of one row.

use crate::Real;
use crate::simd::Simd;

/// The numbers that normalized a row: its exponentials were divided by `sum`.
pub struct Normalization<E> {
    /// The largest score.
    pub largest: E,
    /// The sum of `e^(score - largest)`.
    pub sum: E,
}

impl<E: Real> Normalization<E> {
    /// The logarithm of the sum of `e^score`, as two terms: the largest score, and the term to add to it. Their sum
    /// would round the second term away for very large scores. Minus infinity and 0 if all scores are masked.
    pub fn log_sum_exp(&self) -> [f64; 2] {
        if self.sum == E::ZERO {
            return [f64::NEG_INFINITY, 0.0];
        }
        [self.largest.to_f64(), self.sum.to_f64().ln()]
    }
}

/// Softmax in place; minus infinity masks.
#[inline(always)]
pub fn softmax<E: Real, S: Simd<E>>(simd: S, row: &mut [E]) -> Normalization<E> {
    let largest = largest(simd, row);
    // All are masked or NaN: then the maximum must not be subtracted.
    if largest == -E::INFINITY {
        for x in row {
            *x = if *x == -E::INFINITY { E::ZERO } else { *x };
        }
        let sum = E::ZERO;
        return Normalization { largest, sum };
    }
    let shift = simd.splat(largest);
    let mut sum = simd.zero();
    let mut chunks = row.chunks_exact_mut(S::LANES);
    for chunk in chunks.by_ref() {
        let e = simd.exp(simd.sub(simd.load(chunk), shift));
        sum = simd.add(sum, e);
        simd.store(e, chunk);
    }
    let rest = chunks.into_remainder();
    let mut sum = simd.sum(sum);
    if !rest.is_empty() {
        let e = simd.exp(simd.sub(simd.load_partial(rest), shift));
        simd.store_partial(e, rest);
        sum += rest.iter().copied().sum();
    }
    let factor = E::ONE / sum;
    for x in row {
        // A masked weight stays 0 even if another is NaN.
        *x = if *x == E::ZERO { E::ZERO } else { *x * factor };
    }
    Normalization { largest, sum }
}

/// The largest element that is not NaN; minus infinity if there is none.
#[inline(always)]
pub fn largest<E: Real, S: Simd<E>>(simd: S, elements: &[E]) -> E {
    let mut most = simd.splat(-E::INFINITY);
    let mut chunks = elements.chunks_exact(S::LANES);
    for chunk in chunks.by_ref() {
        most = simd.max(simd.load(chunk), most);
    }
    let larger = |most, &x| if x > most { x } else { most };
    chunks.remainder().iter().fold(simd.largest(most), larger)
}
