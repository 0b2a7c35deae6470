//! Vectors that are arrays: the portable level, and `f64` on every level.
//!
//! The compiler vectorises these loops with what the level allows.

use super::{Job, Real, Simd};

/// Plain Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// `a * b + c`, rounded once where the level has an instruction for it.
pub(super) trait MulAdd<E> {
    fn mul_add(a: E, b: E, c: E) -> E;
}

impl<E: Real> MulAdd<E> for Portable {
    #[inline(always)]
    fn mul_add(a: E, b: E, c: E) -> E {
        a * b + c
    }
}

/// Implements [`Simd<$real>`](Simd) for the token `$token` with arrays of `$lanes`; `$call` does a job with its
/// instructions.
macro_rules! array_simd {
    ($token:ty, $real:ident, $lanes:literal, $registers:literal, $call:path) => {
        impl Simd<$real> for $token {
            type V = [$real; $lanes];
            type M = [bool; $lanes];
            const LANES: usize = $lanes;
            const REGISTERS: usize = $registers;

            #[inline(always)]
            fn splat(self, x: $real) -> Self::V {
                [x; $lanes]
            }

            #[inline(always)]
            fn load(self, from: &[$real]) -> Self::V {
                let mut v = [0.0; $lanes];
                v.copy_from_slice(&from[..$lanes]);
                v
            }

            #[inline(always)]
            fn store(self, v: Self::V, to: &mut [$real]) {
                to[..$lanes].copy_from_slice(&v);
            }

            #[inline(always)]
            fn add(self, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| a[lane] + b[lane])
            }

            #[inline(always)]
            fn sub(self, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| a[lane] - b[lane])
            }

            #[inline(always)]
            fn mul(self, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| a[lane] * b[lane])
            }

            #[inline(always)]
            fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                use crate::simd::array::MulAdd;
                std::array::from_fn(|lane| {
                    <Self as MulAdd<$real>>::mul_add(a[lane], b[lane], c[lane])
                })
            }

            #[inline(always)]
            fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                use crate::simd::array::MulAdd;
                std::array::from_fn(|lane| {
                    <Self as MulAdd<$real>>::mul_add(-a[lane], b[lane], c[lane])
                })
            }

            #[inline(always)]
            fn min(self, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
            }

            #[inline(always)]
            fn max(self, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
            }

            #[inline(always)]
            fn reciprocal(self, v: Self::V) -> Self::V {
                v.map(|x| 1.0 / x)
            }

            #[inline(always)]
            fn add_reciprocal(self, v: Self::V, sum: Self::V) -> Self::V {
                std::array::from_fn(|lane| sum[lane] + 1.0 / v[lane])
            }

            #[inline(always)]
            fn add_quotient(self, a: Self::V, v: Self::V, sum: Self::V) -> Self::V {
                std::array::from_fn(|lane| sum[lane] + a[lane] / v[lane])
            }

            #[inline(always)]
            fn reciprocal_less_one(self, v: Self::V) -> Self::V {
                v.map(|x| 1.0 / x - 1.0)
            }

            #[inline(always)]
            fn exp(self, v: Self::V) -> Self::V {
                $crate::simd::exp::array(v)
            }

            #[inline(always)]
            fn exp2(self, v: Self::V) -> Self::V {
                $crate::simd::exp::array2(v)
            }

            #[inline(always)]
            fn call<J: $crate::simd::Job<$real>>(self, job: J) -> J::Output {
                $call(self, job)
            }

            #[inline(always)]
            fn less(self, a: Self::V, b: Self::V) -> Self::M {
                std::array::from_fn(|lane| a[lane] < b[lane])
            }

            #[inline(always)]
            fn select(self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| if mask[lane] { a[lane] } else { b[lane] })
            }

            #[inline(always)]
            fn sum(self, v: Self::V) -> $real {
                let mut v = v;
                let mut width = $lanes;
                while width > 1 {
                    width /= 2;
                    for lane in 0..width {
                        v[lane] += v[lane + width];
                    }
                }
                v[0]
            }

            #[inline(always)]
            fn largest(self, v: Self::V) -> $real {
                v.into_iter().fold($real::NEG_INFINITY, $real::max)
            }
        }
    };
}

pub(super) use array_simd;

/// Does a job in a function of its own.
#[inline(never)]
fn call<E: Real, J: Job<E>>(simd: Portable, job: J) -> J::Output
where
    Portable: Simd<E>,
{
    job.run(simd)
}

array_simd!(Portable, f32, 8, 16, call);
array_simd!(Portable, f64, 8, 16, call);
