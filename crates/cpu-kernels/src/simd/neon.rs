//! NEON: four `f32` in a vector, thirty-two registers.

use std::arch::aarch64::*;

use super::array::array_simd;
use super::exp::{HIGHEST, LOG2_E, LOWEST, LOWEST_POWER, bounded, exp_of_rest, exp2_of_rest};
use super::{Simd, register_methods, registers, token};

token!(
    /// Proof that the machine has NEON.
    Neon, run_neon, is_aarch64_feature_detected, ["neon"]
);

array_simd!(Neon, f64, lanes: 8, registers: 16, mul_add: f64::mul_add);

impl Simd<f32> for Neon {
    type V = float32x4_t;
    type M = uint32x4_t;
    const LANES: usize = 4;
    const REGISTERS: usize = 32;

    register_methods! {
        fn splat(x: f32) -> float32x4_t { vdupq_n_f32(x) }
        fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t { vaddq_f32(a, b) }
        fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t { vsubq_f32(a, b) }
        fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t { vmulq_f32(a, b) }
        fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t { vfmaq_f32(c, a, b) }
        fn neg_mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t { vfmsq_f32(c, a, b) }
        /// By comparison, because NEON's own minimum returns NaN if either operand is NaN.
        fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(vcltq_f32(a, b), a, b) }
        fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(vcgtq_f32(a, b), a, b) }
        fn sqrt(v: float32x4_t) -> float32x4_t { vsqrtq_f32(v) }
        fn less(a: float32x4_t, b: float32x4_t) -> uint32x4_t { vcltq_f32(a, b) }
        fn select(mask: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(mask, a, b) }
        fn sum(v: float32x4_t) -> f32 { vaddvq_f32(v) }
        fn largest(v: float32x4_t) -> f32 { vmaxnmvq_f32(v) }
        /// The relative error of the estimate is at most 2^-8; each Newton step `r (2 - v r)` squares it.
        fn reciprocal(v: float32x4_t) -> float32x4_t {{
            let r = vrecpeq_f32(v);
            let r = vmulq_f32(r, vrecpsq_f32(v, r));
            vmulq_f32(r, vrecpsq_f32(v, r))
        }}
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> float32x4_t {
        let from = &from[..4];
        // SAFETY: the token proves that the instruction exists, and `from` has the four elements it reads.
        unsafe { vld1q_f32(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: float32x4_t, to: &mut [f32]) {
        let to = &mut to[..4];
        // SAFETY: the token proves that the instruction exists, and `to` has the four elements it writes.
        unsafe { vst1q_f32(to.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn add_reciprocal(self, v: float32x4_t, sum: float32x4_t) -> float32x4_t {
        registers!(self, vaddq_f32(sum, Simd::<f32>::reciprocal(self, v)))
    }

    #[inline(always)]
    fn add_quotient(self, a: float32x4_t, v: float32x4_t, sum: float32x4_t) -> float32x4_t {
        registers!(self, vfmaq_f32(sum, a, Simd::<f32>::reciprocal(self, v)))
    }

    #[inline(always)]
    fn reciprocal_less_one(self, v: float32x4_t) -> float32x4_t {
        let r = Simd::<f32>::reciprocal(self, v);
        registers!(self, vsubq_f32(r, vdupq_n_f32(1.0)))
    }

    #[inline(always)]
    fn exp(self, v: float32x4_t) -> float32x4_t {
        let x = bounded(self, LOWEST, v, HIGHEST);
        let n = registers!(self, vrndnq_f32(vmulq_f32(x, vdupq_n_f32(LOG2_E))));
        let p = exp_of_rest(self, x, n);
        registers!(self, {
            // 2^n as two factors, because n may be 128.
            let n = vcvtnq_s32_f32(n);
            let half = vshrq_n_s32::<1>(n);
            let rest = vsubq_s32(n, half);
            let power = |n: int32x4_t| {
                vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))))
            };
            let y = vmulq_f32(vmulq_f32(p, power(half)), power(rest));
            // NaN compares false with both, and is kept.
            let low = vcltq_f32(v, vdupq_n_f32(LOWEST));
            let high = vcgtq_f32(v, vdupq_n_f32(HIGHEST));
            let y = vbslq_f32(low, vdupq_n_f32(0.0), y);
            vbslq_f32(high, vdupq_n_f32(f32::INFINITY), y)
        })
    }

    #[inline(always)]
    fn exp2(self, v: float32x4_t) -> float32x4_t {
        let lowest = Simd::<f32>::splat(self, LOWEST_POWER);
        let x = Simd::<f32>::max(self, lowest, v);
        let n = registers!(self, vrndmq_f32(x));
        let p = exp2_of_rest(self, registers!(self, vsubq_f32(x, n)));
        registers!(self, {
            // Adds to the exponent bits; for NaN it adds 0.
            let n = vshlq_n_s32::<23>(vcvtq_s32_f32(n));
            let y = vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), n));
            vbslq_f32(vcltq_f32(v, lowest), vdupq_n_f32(0.0), y)
        })
    }
}
