//! The normal distribution.
//!
//! The tail beyond `t` is `e^(-t^2 / 2) R(t)`, whose second factor falls slowly, from 1/2 to about `1 / (t sqrt(2
//! pi))`: a quotient of two polynomials has a relative error of at most 3e-8 from 0 to 13.25, where `e^(-t^2 / 2)` is
//! no longer a normal `f32`. (A minimax fit of the relative error, by least squares with weights that grow where the
//! error is large.) All coefficients are positive, so the rounding error of the polynomials is that of a few additions.

use crate::Real;
use crate::simd::{MAX_LANES, Simd};

/// The numerator of `R(t)`.
const NUMERATOR: [f64; 5] = [
    0.5,
    4.355_691_3e-1,
    1.812_204_3e-1,
    3.995_519_1e-2,
    4.015_917_9e-3,
];

/// The denominator of `R(t)`.
const DENOMINATOR: [f64; 6] = [
    1.0,
    1.669_023_2,
    1.194_124_6,
    4.641_525_1e-1,
    1.001_602_4e-1,
    1.006_626_9e-2,
];

/// `1 / sqrt(2 pi)`
const PEAK: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 / 2.0;

/// The standard normal distribution at a point.
pub(crate) struct Normal<V> {
    /// The probability of a smaller number, `(1 + erf(x / sqrt 2)) / 2`, relatively as exact in the lower tail as at 0.
    pub(crate) distribution: V,
    /// Its derivative, `e^(-x^2 / 2) / sqrt(2 pi)`.
    pub(crate) density: V,
}

impl<V: Copy> Normal<V> {
    /// The distribution at `x`, which is NaN or at most 1000 in magnitude; in `f32` within five units in the last
    /// place. The portable level, which cannot compute the rounding error of `x` squared, errs by `x^2 / 4` units more.
    #[inline(always)]
    pub(crate) fn at<E: Real, S: Simd<E, V = V>>(simd: S, x: V) -> Self {
        let constant = |x| simd.splat(E::from_f64(x));
        let (half, peak) = (constant(0.5), constant(PEAK));
        let square = simd.mul(x, x);
        let power = simd.exp(simd.neg_mul_add(half, square, simd.zero()));
        // The rounding of the square: half of it is missing in the exponent.
        let excess = simd.neg_mul_add(x, x, square);
        let power = simd.mul_add(simd.mul(power, half), excess, power);
        let density = simd.mul(power, peak);
        if size_of::<E>() != size_of::<f32>() {
            return Self {
                distribution: by_lane(simd, x),
                density,
            };
        }
        let negative = simd.sub(simd.zero(), x);
        let is_negative = simd.less(x, simd.zero());
        let magnitude = simd.select(is_negative, negative, x);
        let numerator = polynomial(simd, magnitude, NUMERATOR);
        let denominator = polynomial(simd, magnitude, DENOMINATOR);
        let factor = simd.mul(numerator, simd.reciprocal(denominator));
        let tail = simd.mul(factor, power);
        let rest = simd.sub(simd.splat(E::ONE), tail);
        Self {
            distribution: simd.select(is_negative, tail, rest),
            density,
        }
    }
}

/// The distribution function, lane by lane.
#[inline(always)]
fn by_lane<E: Real, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    let mut lanes = [E::ZERO; MAX_LANES];
    simd.store(x, &mut lanes);
    let half = E::from_f64(0.5);
    let scale = E::from_f64(-std::f64::consts::FRAC_1_SQRT_2);
    for lane in &mut lanes[..S::LANES] {
        *lane = half * (*lane * scale).erfc();
    }
    simd.load(&lanes)
}

/// `C[0] + C[1] x + ...`
#[inline(always)]
fn polynomial<E: Real, S: Simd<E>, const N: usize>(
    simd: S,
    x: S::V,
    coefficients: [f64; N],
) -> S::V {
    let mut sum = simd.zero();
    for coefficient in coefficients.into_iter().rev() {
        sum = simd.mul_add(sum, x, simd.splat(E::from_f64(coefficient)));
    }
    sum
}
