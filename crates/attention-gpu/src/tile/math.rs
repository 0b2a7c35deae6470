//! Elementary functions with the same results on every device, because platforms guarantee different precisions.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// `e^x`, accurate to a unit in the last place, for `x` up to 88; 0 below -87.3. NaN stays NaN.
///
/// `e^x = 2^n e^r` with `n = round(x / ln 2)`; the polynomial is from Cephes' `expf`, as on the CPU.
#[cube]
#[allow(
    clippy::approx_constant,
    clippy::excessive_precision,
    reason = "as published"
)]
pub(crate) fn exp(x: f32) -> f32 {
    let n = (x * 1.442_695f32 + 0.5f32).floor();
    // `ln 2` in two parts, so that `r` is exact to rounding.
    let r = fma(n, -0.693_359_4f32, x);
    let r = fma(n, 2.121_944_4e-4f32, r);
    let p = 1.987_569_2e-4f32;
    let p = fma(p, r, 1.398_199_9e-3f32);
    let p = fma(p, r, 8.333_452e-3f32);
    let p = fma(p, r, 4.166_579_6e-2f32);
    let p = fma(p, r, 1.666_666_6e-1f32);
    let p = fma(p, r, 5.000_000_1e-1f32);
    let y = fma(p, r * r, r) + 1.0f32;
    let exponent = u32::cast_from(i32::cast_from(n) + 127);
    let power = f32::from_bits(exponent << 23u32);
    select(x < -87.3f32, 0.0f32, y * power)
}

/// The hyperbolic tangent, accurate to some units in the last place. NaN stays NaN.
///
/// `x + x^3 p(x^2)` for `|x| < 0.625`, as in Cephes' `tanhf`, and `1 - 2 / (e^2x + 1)` beyond.
#[cube]
#[allow(clippy::excessive_precision, reason = "as published")]
pub(crate) fn tanh(x: f32) -> f32 {
    let square = x * x;
    let p = -5.704_988_7e-3f32;
    let p = fma(p, square, 2.063_908_8e-2f32);
    let p = fma(p, square, -5.373_971_6e-2f32);
    let p = fma(p, square, 1.333_144_2e-1f32);
    let p = fma(p, square, -3.333_328_2e-1f32);
    let small = fma(p * square, x, x);
    let large = 1.0f32 - 2.0f32 / (exp(2.0f32 * bounded(x, 20.0f32)) + 1.0f32);
    select(square < 0.390_625f32, small, large)
}

/// `x` clamped to `-bound..bound`; NaN stays NaN.
#[cube]
pub(crate) fn bounded(x: f32, bound: f32) -> f32 {
    select(x > bound, bound, select(x < -bound, -bound, x))
}

/// The larger one. If one of the two is NaN, the result may be either.
#[cube]
pub(crate) fn greater(a: f32, b: f32) -> f32 {
    select(a > b, a, b)
}

/// The rounding error of `sum`, which is `a + b` rounded (Knuth, TwoSum).
#[cube]
pub(crate) fn error_of_sum(a: f32, b: f32, sum: f32) -> f32 {
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

/// A sum plus its rounding error, which is NaN if the sum is not finite.
#[cube]
pub(crate) fn corrected(sum: f32, error: f32) -> f32 {
    let is_finite = sum <= f32::MAX && sum >= f32::MIN;
    select(is_finite, sum + error, sum)
}

/// `1 / (total + error)` as a sum of two: `1 / total` rounded, and the rest; both are 0 if `total` is 0.
#[cube]
pub(crate) fn reciprocal_in_two_parts(total: f32, error: f32) -> (f32, f32) {
    let reciprocal = select(total == 0.0f32, 0.0f32, 1.0f32 / total);
    let rest = fma(-total, reciprocal, 1.0f32) - error * reciprocal;
    (reciprocal, rest * reciprocal)
}
