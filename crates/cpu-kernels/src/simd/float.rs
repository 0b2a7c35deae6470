//! The element types of vectors.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use super::level::Kind;
use super::sealed::Sealed;
use super::{Half, Job, Level, Token};

/// `f32` or `f64`: constants and functions of a single element.
pub trait Float:
    Sealed
    + Copy
    + Debug
    + Display
    + Default
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Sum
    + Send
    + Sync
    + 'static
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Infinity.
    const INFINITY: Self;
    /// The largest finite element.
    const LARGEST: Self;
    /// The smallest positive normal element.
    const SMALLEST: Self;

    /// The nearest element of this type.
    fn from_f64(x: f64) -> Self;
    /// The same element.
    fn to_f64(self) -> f64;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// `e^self`
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The complementary error function, `1 - erf(self)`.
    fn erfc(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// Whether it is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Copies `from` to `to`, which has the same length.
    fn widen(from: Half, to: &mut [Self]);
    /// Runs `job` with the instructions of `level`.
    fn dispatch<J: Job<Self>>(level: Level, job: J) -> J::Output;
}

macro_rules! float {
    ($type:ident, $widen:ident, $erfc:path, avx512: $vectors:expr) => {
        impl Float for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = $type::INFINITY;
            const LARGEST: Self = $type::MAX;
            const SMALLEST: Self = $type::MIN_POSITIVE;

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $type
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn tanh(self) -> Self {
                self.tanh()
            }

            #[inline(always)]
            fn exp(self) -> Self {
                self.exp()
            }

            #[inline(always)]
            fn ln(self) -> Self {
                self.ln()
            }

            #[inline(always)]
            fn erfc(self) -> Self {
                $erfc(self)
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }

            fn widen(from: Half, to: &mut [Self]) {
                from.$widen(to);
            }

            fn dispatch<J: Job<Self>>(level: Level, job: J) -> J::Output {
                match level.0 {
                    Kind::Portable(simd) => simd.call(job),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx2(simd) => simd.call(job),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx512(simd) => $vectors(simd).call(job),
                    #[cfg(target_arch = "aarch64")]
                    Kind::Neon(simd) => simd.call(job),
                }
            }
        }
    };
}

float!(f32, to_f32, libm::erfcf, avx512: std::convert::identity);
// A copy of all kernels for one type and instruction set is a sixth of all code to compile. This one is left out: `f64`
// is for checks, and does without AVX-512's sixteen additional registers and longer vectors.
float!(f64, to_f64, libm::erfc, avx512: super::avx512::Avx512::avx2);
