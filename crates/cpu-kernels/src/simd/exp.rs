//! The exponential.
//!
//! `e^x = 2^n e^r` with `n = round(x / ln 2)` and `r = x - n ln 2`, `|r| <= ln 2 / 2`; `ln 2` is subtracted in two
//! parts so that `r` is exact to rounding. On that interval the polynomial below is within 3e-9 of `e^r`.

use super::Simd;

/// `1 / ln 2`
pub(super) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// The leading bits of `ln 2`, whose product with a small integer is exact.
#[allow(clippy::excessive_precision, reason = "all its digits")]
const LN2_HIGH: f32 = 0.693_359_375;
/// `ln 2 - LN2_HIGH`
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Above this the result is infinite.
pub(super) const HIGHEST: f32 = 88.722_84;
/// Below this `e^x` is subnormal, and 0 stands for it.
pub(super) const LOWEST: f32 = -87.336_54;

/// `e^r = 1 + r + r^2 (C[0] + C[1] r + ... )`, a minimax fit in the form of Cephes' `expf`.
#[allow(clippy::excessive_precision, reason = "as published")]
const COEFFICIENTS: [f32; 6] = [
    5.000_000_1e-1,
    1.666_666_6e-1,
    4.166_579_6e-2,
    8.333_452e-3,
    1.398_199_9e-3,
    1.987_569_2e-4,
];

/// `2^r` on `0..1` is `C[0] + C[1] r + ...` within 2e-9, a minimax fit of the relative error.
#[allow(clippy::approx_constant, reason = "the fit's own")]
const POWER_OF_TWO: [f32; 7] = [
    1.0,
    6.931_47e-1,
    2.402_298_3e-1,
    5.548_334e-2,
    9.678_841e-3,
    1.243_968_7e-3,
    2.170_225_6e-4,
];
/// Below this `2^x` is replaced by 0, because it is subnormal.
pub(super) const LOWEST_POWER: f32 = -126.0;

/// `v` within bounds, which are the first arguments of `min` and `max`, so that NaN passes.
#[inline(always)]
pub(super) fn bounded<S: Simd<f32>>(simd: S, lowest: f32, v: S::V, highest: f32) -> S::V {
    simd.max(simd.splat(lowest), simd.min(simd.splat(highest), v))
}

/// `e^r`, where `x = n ln 2 + r`.
#[inline(always)]
pub(super) fn exp_of_rest<S: Simd<f32>>(simd: S, x: S::V, n: S::V) -> S::V {
    let r = simd.neg_mul_add(n, simd.splat(LN2_HIGH), x);
    let r = simd.neg_mul_add(n, simd.splat(LN2_LOW), r);
    let [first @ .., last] = COEFFICIENTS;
    let mut p = simd.splat(last);
    for c in first.into_iter().rev() {
        p = simd.mul_add(p, r, simd.splat(c));
    }
    simd.mul_add(p, simd.mul(r, r), simd.add(r, simd.splat(1.0)))
}

/// `2^r` for `r` in `0..1`.
#[inline(always)]
pub(super) fn exp2_of_rest<S: Simd<f32>>(simd: S, r: S::V) -> S::V {
    let [first @ .., last] = POWER_OF_TWO;
    let mut p = simd.splat(last);
    for c in first.into_iter().rev() {
        p = simd.mul_add(p, r, simd.splat(c));
    }
    p
}

/// An element type with exponentials for arrays.
pub(super) trait ArrayExp: Copy {
    fn array_exp(self) -> Self;
    fn array_exp2(self) -> Self;
}

impl ArrayExp for f32 {
    #[inline(always)]
    fn array_exp(self) -> Self {
        // Written without branches, so that a loop over it is vectorised.
        let x = if self > HIGHEST { HIGHEST } else { self };
        let x = if x < LOWEST { LOWEST } else { x };
        // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
        const ROUND: f32 = 12_582_912.0;
        let n = (x * LOG2_E + ROUND) - ROUND;
        let r = x - n * LN2_HIGH;
        let r = r - n * LN2_LOW;
        let [c0, c1, c2, c3, c4, c5] = COEFFICIENTS;
        let p = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0;
        let p = p * r * r + r + 1.0;
        // 2^n as two factors, because n may be 128.
        let half = (n * 0.5) as i32;
        let rest = n as i32 - half;
        let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
        let y = p * power(half) * power(rest);
        let y = if self < LOWEST { 0.0 } else { y };
        if self > HIGHEST { f32::INFINITY } else { y }
    }

    #[inline(always)]
    fn array_exp2(self) -> Self {
        let x = if self < LOWEST_POWER {
            LOWEST_POWER
        } else {
            self
        };
        // Rounds to the nearest integer, then down if that was above.
        const ROUND: f32 = 12_582_912.0;
        let n = (x + ROUND) - ROUND;
        let n = if n > x { n - 1.0 } else { n };
        let r = x - n;
        let [c0, c1, c2, c3, c4, c5, c6] = POWER_OF_TWO;
        let p = (((((c6 * r + c5) * r + c4) * r + c3) * r + c2) * r + c1) * r + c0;
        let y = p * f32::from_bits((((n as i32) + 127) as u32) << 23);
        if self < LOWEST_POWER { 0.0 } else { y }
    }
}

impl ArrayExp for f64 {
    #[inline(always)]
    fn array_exp(self) -> Self {
        self.exp()
    }

    #[inline(always)]
    fn array_exp2(self) -> Self {
        if self < -1022.0 { 0.0 } else { self.exp2() }
    }
}
