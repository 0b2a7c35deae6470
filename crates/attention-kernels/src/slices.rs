//! Sums of slices, weighted and not.

use cpu_kernels::Real;
use cpu_kernels::slices::equal_parts;

/// Equal parts of a result, or `count` times `None` if it is not requested.
pub(crate) fn parts_of_wanted<T>(
    gradient: Option<&mut [T]>,
    count: usize,
) -> Vec<Option<&mut [T]>> {
    match gradient {
        Some(gradient) => equal_parts(gradient, count).into_iter().map(Some).collect(),
        None => (0..count).map(|_| None).collect(),
    }
}

/// `to += factor * from`
#[inline(always)]
pub(crate) fn add_multiple<E: Real>(factor: E, from: &[E], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// `sum a b` in f64; the surplus of the longer slice is left out.
#[inline(always)]
pub(crate) fn precise_dot<E: Real>(a: &[E], b: &[E]) -> f64 {
    const SUMS: usize = 8;
    let len = a.len().min(b.len());
    let (a, b) = (a[..len].chunks_exact(SUMS), b[..len].chunks_exact(SUMS));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f64 = rest.map(|(a, b)| a.to_f64() * b.to_f64()).sum();
    let mut sums = [0.0; SUMS];
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a.to_f64() * b.to_f64();
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Turns `gradient`, of the dropped weights, into the gradients of the scores: `p (dw - D)` with `D = sum p dw / sum
/// p`, where the second sum includes the weight of a `sink`, or 0.
///
/// The gradients cancel: without a sink their sum is 0. A part common to all `dw` of a row must therefore leave no
/// error in `D`, which is computed in f64 here and divided by the sum of the rounded weights.
#[inline(always)]
pub(crate) fn softmax_gradient<E: Real>(weights: &[E], sink: f64, gradient: &mut [E]) {
    let (mut total, mut sum) = (0.0, sink);
    for (weight, gradient) in weights.iter().zip(&*gradient) {
        total += weight.to_f64() * gradient.to_f64();
        sum += weight.to_f64();
    }
    let mean = if sum == 0.0 { 0.0 } else { total / sum };
    for (weight, gradient) in weights.iter().zip(gradient) {
        *gradient = E::from_f64(weight.to_f64() * (gradient.to_f64() - mean));
    }
}

/// `to += weights * sums`, element by element; a sum of 0 adds nothing, whatever its weight.
#[inline(always)]
pub(crate) fn add_weighted<E: Real>(weights: &[E], sums: &[E], to: &mut [E]) {
    for ((to, &weight), &sum) in to.iter_mut().zip(weights).zip(sums) {
        *to += if sum == E::ZERO {
            E::ZERO
        } else {
            weight * sum
        };
    }
}
