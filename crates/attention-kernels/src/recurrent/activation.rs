//! The functions of gates.

use crate::Real;
use crate::simd::{MAX_LANES, Simd};

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(super) fn sigmoid<E: Real, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    // Far enough for the result to be 0 beside anything that it is added to, and not so far that it is not normal.
    let negative = simd.min(simd.splat(E::from_f64(80.0)), simd.sub(simd.zero(), x));
    simd.reciprocal(simd.add(simd.exp(negative), simd.splat(E::ONE)))
}

/// `tanh(x) = x + x^3 (C[0] + C[1] x^2 + ...)` for `|x| < 0.625`, a minimax fit as in Cephes' `tanhf`.
#[allow(clippy::excessive_precision, reason = "as published")]
const TANH: [f64; 5] = [
    -3.333_328_194_22e-1,
    1.333_144_220_36e-1,
    -5.373_971_555_31e-2,
    2.063_908_879_54e-2,
    -5.704_988_727_45e-3,
];
const SMALL: f64 = 0.625;

/// The hyperbolic tangent, within some units in the last place.
#[inline(always)]
pub(super) fn tanh<E: Real, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    if size_of::<E>() != size_of::<f32>() {
        let mut lanes = [E::ZERO; MAX_LANES];
        simd.store(x, &mut lanes);
        for lane in &mut lanes[..S::LANES] {
            *lane = lane.tanh();
        }
        return simd.load(&lanes);
    }
    let (zero, one) = (simd.zero(), simd.splat(E::ONE));
    let constant = |x| simd.splat(E::from_f64(x));
    let negative = simd.sub(zero, x);
    let is_negative = simd.less(x, zero);
    let magnitude = simd.select(is_negative, negative, x);
    // 1 - 2 / (e^(2|x|) + 1)
    let double = simd.add(magnitude, magnitude);
    let power = simd.exp(simd.min(constant(80.0), double));
    let large = simd.neg_mul_add(constant(2.0), simd.reciprocal(simd.add(power, one)), one);
    let large = simd.select(is_negative, simd.sub(zero, large), large);

    let square = simd.mul(x, x);
    let [first @ .., last] = TANH;
    let mut sum = constant(last);
    for coefficient in first.into_iter().rev() {
        sum = simd.mul_add(sum, square, constant(coefficient));
    }
    let small = simd.mul_add(simd.mul(x, square), sum, x);
    simd.select(simd.less(magnitude, constant(SMALL)), small, large)
}
