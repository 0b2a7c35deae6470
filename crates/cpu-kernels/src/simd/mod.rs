//! Vectors, with one implementation for each instruction set, chosen at run time.
//!
//! A kernel is written once, generic over [`Simd`], and passed to [`Float::dispatch`] as a [`Job`]. Inside [`Job::run`]
//! everything that is `#[inline(always)]` is compiled for the instruction set of the token: keep closures and calls of
//! other functions out of inner loops unless they are inlined too.
//!
//! No crate replaces this one. The kernels need estimates of reciprocals whose correction is fused with the sum that
//! follows, `e^x` and `2^x` to two units in the last place, and transposes of whole registers, chosen at run time on
//! stable Rust. `pulp` chooses at run time, but has no fused correction, no `exp` and no transposes; `wide` has `exp`,
//! but the instruction set is fixed when it is compiled; `std::simd` needs nightly, and has no estimates.
//!
//! All `unsafe` code of the crate is in this module, which depends on no kernel.

mod activation;
mod array;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod exp;
mod float;
pub mod gemm;
mod half;
mod level;
#[cfg(target_arch = "aarch64")]
mod neon;
mod sealed;
mod token;

pub(crate) use activation::Sigmoid;
pub use float::Float;
pub use half::Half;
pub use level::Level;

pub use block::Block;
pub use token::{Job, Token};

use token::Portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use token::{register_methods, registers, token};

/// The vectors of one instruction set, with `E` in each lane. A value of the token proves that the machine has it.
///
/// Comparisons, `min` and `max` follow x86: if either operand is NaN, `min` and `max` return the second and
/// comparisons are false.
pub trait Simd<E: Float>: Token {
    /// A vector.
    type V: Copy;
    /// The result of a comparison, lane by lane.
    type M: Copy;
    /// The number of lanes.
    const LANES: usize;
    /// The number of vectors that a kernel may keep in registers, including working vectors.
    #[doc(hidden)]
    const REGISTERS: usize;

    /// `x` in every lane.
    fn splat(self, x: E) -> Self::V;
    /// The first [`LANES`](Self::LANES) elements of `from`.
    fn load(self, from: &[E]) -> Self::V;
    /// Writes the first [`LANES`](Self::LANES) elements of `to`.
    fn store(self, v: Self::V, to: &mut [E]);
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The smaller of each lane; `b` if either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger of each lane; `b` if either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `1 / v`, accurate to two units in the last place, if `v` and `1 / v` are finite and normal.
    fn reciprocal(self, v: Self::V) -> Self::V;
    /// `sum + 1 / v`, with one rounding less than [`reciprocal`](Self::reciprocal) if the level allows.
    fn add_reciprocal(self, v: Self::V, sum: Self::V) -> Self::V;
    /// `sum + a / v`, if `v` and `1 / v` are finite and normal.
    fn add_quotient(self, a: Self::V, v: Self::V, sum: Self::V) -> Self::V;
    /// `1 / v - 1`, rounded once if the level allows.
    #[doc(hidden)]
    fn reciprocal_less_one(self, v: Self::V) -> Self::V;
    /// The square root, correctly rounded; NaN below 0.
    fn sqrt(self, v: Self::V) -> Self::V;
    /// `e^v`, accurate to two units in the last place; 0 below the smallest normal element, infinity above the largest.
    fn exp(self, v: Self::V) -> Self::V;
    /// `2^v` for `v` up to 127, accurate to two units in the last place, and exactly 1 at 0; 0 below -126.
    fn exp2(self, v: Self::V) -> Self::V;
    /// `a < b`
    fn less(self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where `mask` holds, `b` elsewhere.
    fn select(self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// The sum of the lanes, in a fixed order.
    fn sum(self, v: Self::V) -> E;
    /// The largest lane, ignoring NaN.
    fn largest(self, v: Self::V) -> E;

    /// `0 - v`
    #[inline(always)]
    fn neg(self, v: Self::V) -> Self::V {
        self.sub(self.zero(), v)
    }

    /// The absolute value of each lane.
    #[inline(always)]
    fn abs(self, v: Self::V) -> Self::V {
        self.max(v, self.neg(v))
    }

    /// `a / v`, accurate to four units in the last place, if `v` and `1 / v` are finite and normal; may be NaN if `v`
    /// is 0 or infinite.
    #[inline(always)]
    fn div(self, a: Self::V, v: Self::V) -> Self::V {
        self.add_quotient(a, v, self.zero())
    }

    /// The hyperbolic tangent, accurate to four units in the last place.
    #[inline(always)]
    fn tanh(self, v: Self::V) -> Self::V {
        activation::tanh(self, v)
    }

    /// `1 / (1 + e^-v)`, accurate to four units in the last place where it is normal.
    #[inline(always)]
    fn sigmoid(self, v: Self::V) -> Self::V {
        Sigmoid::of(self, v).value(self)
    }

    /// `first`, `first + 1`, .. in neighbouring lanes.
    #[inline(always)]
    fn count_from(self, first: E) -> Self::V {
        let count: [E; MAX_LANES] = std::array::from_fn(|lane| E::from_f64(lane as f64));
        self.add(self.splat(first), self.load(&count))
    }

    /// Transposes a square of [`LANES`](Self::LANES) rows: `to[x * to_stride + r] = from[r * from_stride + x]`.
    #[doc(hidden)]
    #[inline(always)]
    fn transpose(self, from: &[E], from_stride: usize, to: &mut [E], to_stride: usize) {
        for x in 0..Self::LANES {
            let to = &mut to[x * to_stride..][..Self::LANES];
            for (r, to) in to.iter_mut().enumerate() {
                *to = from[r * from_stride + x];
            }
        }
    }

    /// 0 in every lane.
    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(E::ZERO)
    }

    /// All elements of `from`, at most [`LANES`](Self::LANES), padded with zeros.
    #[inline(always)]
    fn load_partial(self, from: &[E]) -> Self::V {
        if from.len() == Self::LANES {
            return self.load(from);
        }
        let mut padded = [E::ZERO; MAX_LANES];
        padded[..from.len()].copy_from_slice(from);
        self.load(&padded)
    }

    /// Writes all elements of `to`, at most [`LANES`](Self::LANES).
    #[inline(always)]
    fn store_partial(self, v: Self::V, to: &mut [E]) {
        if to.len() == Self::LANES {
            return self.store(v, to);
        }
        let mut padded = [E::ZERO; MAX_LANES];
        self.store(v, &mut padded);
        to.copy_from_slice(&padded[..to.len()]);
    }
}

/// The number of elements up to the last of a square of `lanes` rows; on overflow, more than any slice has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn square_len(lanes: usize, stride: usize) -> usize {
    stride.saturating_mul(lanes - 1).saturating_add(lanes)
}

/// Prefetches the cache line of an element that will be read or written soon. Any address is valid.
#[inline(always)]
pub fn prefetch<E>(element: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: all machines of this kind have the instruction, a hint that reads nothing a program could notice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(element.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = element;
}

/// The largest number of lanes of a vector.
pub const MAX_LANES: usize = 16;

#[cfg(test)]
mod tests;
