//! Vectors that are arrays: the portable level, and `f64` on every level.
//!
//! The compiler vectorises these loops with what the level allows.

use super::{Float, Portable};

/// Implements [`Simd<$float>`](Simd) for a token with arrays. `$mul_add` is `a * b + c`, rounded once where there is an
/// instruction for it.
macro_rules! array_simd {
    (
        $token:ident, $float:ident, lanes: $lanes:literal, registers: $registers:literal, mul_add: $mul_add:path
    ) => {
        impl $crate::simd::Simd<$float> for $token {
            type V = [$float; $lanes];
            type M = [bool; $lanes];
            const LANES: usize = $lanes;
            const REGISTERS: usize = $registers;

            #[inline(always)]
            fn splat(self, x: $float) -> Self::V {
                [x; $lanes]
            }

            #[inline(always)]
            fn load(self, from: &[$float]) -> Self::V {
                let mut v = [0.0; $lanes];
                v.copy_from_slice(&from[..$lanes]);
                v
            }

            #[inline(always)]
            fn store(self, v: Self::V, to: &mut [$float]) {
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
                std::array::from_fn(|lane| $mul_add(a[lane], b[lane], c[lane]))
            }

            #[inline(always)]
            fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                std::array::from_fn(|lane| $mul_add(-a[lane], b[lane], c[lane]))
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
            fn less(self, a: Self::V, b: Self::V) -> Self::M {
                std::array::from_fn(|lane| a[lane] < b[lane])
            }

            #[inline(always)]
            fn select(self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V {
                std::array::from_fn(|lane| if mask[lane] { a[lane] } else { b[lane] })
            }

            #[inline(always)]
            fn sum(self, v: Self::V) -> $float {
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
            fn largest(self, v: Self::V) -> $float {
                v.into_iter().fold($float::NEG_INFINITY, $float::max)
            }
        }
    };
}

pub(super) use array_simd;

/// `a * b + c`, rounded twice.
#[inline(always)]
fn unfused<E: Float>(a: E, b: E, c: E) -> E {
    a * b + c
}

array_simd!(Portable, f32, lanes: 8, registers: 16, mul_add: unfused);
array_simd!(Portable, f64, lanes: 8, registers: 16, mul_add: unfused);
