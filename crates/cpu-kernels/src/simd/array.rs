//! Vectors that are arrays: the portable level, and `f64` on every level.
//!
//! The compiler vectorises these loops as far as the level allows.

use super::{Float, Portable};

/// Methods of a token that are expressions.
macro_rules! methods {
    ($(fn $name:ident($($argument:ident: $type:ty),+) -> $output:ty { $body:expr })+) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: $type),+) -> $output {
                $body
            }
        )+
    };
}

/// Implements `Simd<$float>` for a token with arrays. `$mul_add` is `a * b + c`, rounded once if there is an
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

            $crate::simd::array::methods! {
                fn splat(x: $float) -> Self::V { [x; $lanes] }
                fn load(from: &[$float]) -> Self::V {{
                    let mut v = [0.0; $lanes];
                    v.copy_from_slice(&from[..$lanes]);
                    v
                }}
                fn store(v: Self::V, to: &mut [$float]) -> () { to[..$lanes].copy_from_slice(&v) }
                fn add(a: Self::V, b: Self::V) -> Self::V { std::array::from_fn(|lane| a[lane] + b[lane]) }
                fn sub(a: Self::V, b: Self::V) -> Self::V { std::array::from_fn(|lane| a[lane] - b[lane]) }
                fn mul(a: Self::V, b: Self::V) -> Self::V { std::array::from_fn(|lane| a[lane] * b[lane]) }
                fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                    std::array::from_fn(|lane| $mul_add(a[lane], b[lane], c[lane]))
                }
                fn neg_mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                    std::array::from_fn(|lane| $mul_add(-a[lane], b[lane], c[lane]))
                }
                fn min(a: Self::V, b: Self::V) -> Self::V {
                    std::array::from_fn(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
                }
                fn max(a: Self::V, b: Self::V) -> Self::V {
                    std::array::from_fn(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
                }
                fn reciprocal(v: Self::V) -> Self::V { v.map(|x| 1.0 / x) }
                fn add_reciprocal(v: Self::V, sum: Self::V) -> Self::V {
                    std::array::from_fn(|lane| sum[lane] + 1.0 / v[lane])
                }
                fn add_quotient(a: Self::V, v: Self::V, sum: Self::V) -> Self::V {
                    std::array::from_fn(|lane| sum[lane] + a[lane] / v[lane])
                }
                fn reciprocal_less_one(v: Self::V) -> Self::V { v.map(|x| 1.0 / x - 1.0) }
                fn sqrt(v: Self::V) -> Self::V { v.map($float::sqrt) }
                fn exp(v: Self::V) -> Self::V { v.map($crate::simd::exp::ArrayExp::array_exp) }
                fn exp2(v: Self::V) -> Self::V { v.map($crate::simd::exp::ArrayExp::array_exp2) }
                fn less(a: Self::V, b: Self::V) -> Self::M { std::array::from_fn(|lane| a[lane] < b[lane]) }
                fn select(mask: Self::M, a: Self::V, b: Self::V) -> Self::V {
                    std::array::from_fn(|lane| if mask[lane] { a[lane] } else { b[lane] })
                }
                fn largest(v: Self::V) -> $float {
                    v.into_iter().fold($float::NEG_INFINITY, $float::max)
                }
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
        }
    };
}

pub(super) use {array_simd, methods};

/// `a * b + c`, rounded twice.
#[inline(always)]
fn unfused<E: Float>(a: E, b: E, c: E) -> E {
    a * b + c
}

array_simd!(Portable, f32, lanes: 8, registers: 16, mul_add: unfused);
array_simd!(Portable, f64, lanes: 8, registers: 16, mul_add: unfused);
