//! Soft-capping of scores.

use cpu_kernels::Real;
use cpu_kernels::simd::{MAX_LANES, Simd};

use crate::tiles::KEY_STRIDE;

/// Computes `cap tanh(factor score / cap)`, and writes its derivative by `factor score` to `slopes`, unless that is
/// empty. For a NaN score the derivative is 0: if the pair is masked, its gradient is 0 and must stay 0.
#[inline(always)]
pub(crate) fn soft_cap<E: Real, S: Simd<E>>(
    simd: S,
    cap: E,
    factor: E,
    scores: &mut [E],
    slopes: &mut [E],
) {
    let (inverse, one) = (simd.splat(factor / cap), simd.splat(E::ONE));
    let (cap, zero) = (simd.splat(cap), simd.zero());
    let mut slopes = slopes.chunks_mut(S::LANES);
    for scores in scores.chunks_mut(S::LANES) {
        let score = simd.load_partial(scores);
        let tanh = tanh(simd, simd.mul(score, inverse));
        simd.store_partial(simd.mul(cap, tanh), scores);
        if let Some(slopes) = slopes.next() {
            let slope = simd.neg_mul_add(tanh, tanh, one);
            simd.store_partial(simd.max(slope, zero), slopes);
        }
    }
}

/// Multiplies the gradients of some rows of a tile by the derivatives, up to whole vectors.
#[inline(always)]
pub(crate) fn through_soft_cap<E: Real, S: Simd<E>>(
    simd: S,
    [rows, width]: [usize; 2],
    slopes: &[E],
    gradients: &mut [E],
) {
    let whole = width.next_multiple_of(S::LANES);
    let gradients = gradients.chunks_exact_mut(KEY_STRIDE);
    for (gradients, slopes) in gradients.zip(slopes.chunks_exact(KEY_STRIDE)).take(rows) {
        let gradients = gradients[..whole].chunks_exact_mut(S::LANES);
        for (gradient, slope) in gradients.zip(slopes.chunks_exact(S::LANES)) {
            simd.store(simd.mul(simd.load(gradient), simd.load(slope)), gradient);
        }
    }
}

/// `tanh(x) = x P(x^2) / Q(x^2)` for `|x|` up to [`SATURATED`], within 2e-8 of it: a minimax fit of the relative error.
const NUMERATOR: [f64; 5] = [
    1.0,
    1.345_031_315e-1,
    3.578_620_531e-3,
    2.201_677_108e-5,
    1.541_798_531e-8,
];
const DENOMINATOR: [f64; 5] = [
    1.0,
    4.678_364_112e-1,
    2.619_084_208e-2,
    3.423_029_113e-4,
    8.594_929_879e-7,
];
/// The argument from which the tanh here is constant: 1, to some units in the last place.
const SATURATED: f64 = 7.905;

/// The hyperbolic tangent, accurate to some units in the last place, also where it is 1. A recurrent cell, which must
/// keep its state exactly over many steps, has another one, with twice the instructions.
#[inline(always)]
fn tanh<E: Real, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    if size_of::<E>() != size_of::<f32>() {
        let mut lanes = [E::ZERO; MAX_LANES];
        simd.store(x, &mut lanes);
        for lane in &mut lanes[..S::LANES] {
            *lane = lane.tanh();
        }
        return simd.load(&lanes);
    }
    let constant = |x| simd.splat(E::from_f64(x));
    // The bounds are the first arguments, so that `min` and `max` let NaN pass.
    let x = simd.min(constant(SATURATED), x);
    let x = simd.max(constant(-SATURATED), x);
    let square = simd.mul(x, x);
    let inverse = simd.reciprocal(polynomial(simd, square, DENOMINATOR));
    simd.mul(simd.mul(x, polynomial(simd, square, NUMERATOR)), inverse)
}

/// `C[0] + C[1] x + ...`
#[inline(always)]
fn polynomial<E: Real, S: Simd<E>>(simd: S, x: S::V, [first @ .., last]: [f64; 5]) -> S::V {
    let mut sum = simd.splat(E::from_f64(last));
    for coefficient in first.into_iter().rev() {
        sum = simd.mul_add(sum, x, simd.splat(E::from_f64(coefficient)));
    }
    sum
}
