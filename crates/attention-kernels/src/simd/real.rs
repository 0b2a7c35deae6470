//! The numbers that kernels compute with.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::level::Kind;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::{Level, Portable, Simd};
use crate::Half;
use crate::additive::AdditiveKernels;
use crate::dot::DotKernels;

/// Work for one thread, generic over the instruction set.
pub(crate) trait Job<E: Real> {
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, and so is what they call in inner loops.
    fn run<S: Simd<E>>(self, simd: S) -> Self::Output;
}

/// `f32` or `f64`.
#[allow(private_bounds, reason = "sealed: the kernels know these two types")]
pub trait Real: Sealed {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Infinity.
    const INFINITY: Self;
    /// The largest finite number.
    const LARGEST: Self;
    /// The smallest positive normal number.
    const SMALLEST: Self;

    /// The nearest number of this type.
    fn from_f64(x: f64) -> Self;
    /// The same number.
    fn to_f64(self) -> f64;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// `e^self`
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

/// What a [`Real`] can do inside this crate.
pub(crate) trait Sealed:
    Copy
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
    + AdditiveKernels
    + DotKernels
{
    /// Copies `from` to `to`, of the same length.
    fn widen(from: Half, to: &mut [Self]);

    /// Runs `job` with the instructions of `level`.
    fn dispatch<J: Job<Self>>(level: Level, job: J) -> J::Output
    where
        Self: Real;
}

macro_rules! real {
    ($type:ident, $widen:ident) => {
        impl Real for $type {
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
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
        }

        impl Sealed for $type {
            fn widen(from: Half, to: &mut [Self]) {
                from.$widen(to);
            }

            fn dispatch<J: Job<Self>>(level: Level, job: J) -> J::Output {
                match level.0 {
                    Kind::Portable => job.run(Portable),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx2 => {
                        #[target_feature(enable = "avx2,fma")]
                        fn run<J: Job<$type>>(job: J, simd: Avx2) -> J::Output {
                            job.run(simd)
                        }
                        // SAFETY: `Kind::Avx2` is only made by `Level::available`, which found AVX2 and FMA.
                        unsafe { run(job, Avx2::new_unchecked()) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx512 => {
                        #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
                        fn run<J: Job<$type>>(job: J, simd: Avx512) -> J::Output {
                            job.run(simd)
                        }
                        // SAFETY: `Kind::Avx512` is only made by `Level::available`, which found all of these.
                        unsafe { run(job, Avx512::new_unchecked()) }
                    }
                    #[cfg(target_arch = "aarch64")]
                    Kind::Neon => {
                        #[target_feature(enable = "neon")]
                        fn run<J: Job<$type>>(job: J, simd: Neon) -> J::Output {
                            job.run(simd)
                        }
                        // SAFETY: `Kind::Neon` is only made by `Level::available`, which found NEON.
                        unsafe { run(job, Neon::new_unchecked()) }
                    }
                }
            }
        }
    };
}

real!(f32, to_f32);
real!(f64, to_f64);
