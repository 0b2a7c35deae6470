//! NEON: four `f32` in a vector, thirty-two registers.

use std::arch::aarch64::*;

use super::array::array_simd;
use super::exp::{
    COEFFICIENTS, HIGHEST, LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, LOWEST_POWER, POWER_OF_TWO,
};
use super::{Simd, registers, token};

token!(
    /// Proof that the machine has NEON.
    Neon, is_aarch64_feature_detected, ["neon"]
);

array_simd!(Neon, f64, lanes: 8, registers: 16, mul_add: f64::mul_add);

impl Simd<f32> for Neon {
    type V = float32x4_t;
    type M = uint32x4_t;
    const LANES: usize = 4;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        registers!(self, vdupq_n_f32(x))
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> float32x4_t {
        let from = &from[..4];
        // SAFETY: the token proves that the instruction is there, and `from` has the four elements it reads.
        unsafe { vld1q_f32(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: float32x4_t, to: &mut [f32]) {
        let to = &mut to[..4];
        // SAFETY: the token proves that the instruction is there, and `to` has the four elements it writes.
        unsafe { vst1q_f32(to.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        registers!(self, vaddq_f32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        registers!(self, vsubq_f32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        registers!(self, vmulq_f32(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        registers!(self, vfmaq_f32(c, a, b))
    }

    #[inline(always)]
    fn neg_mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        registers!(self, vfmsq_f32(c, a, b))
    }

    /// By comparison: NEON's own minimum returns NaN if either operand is.
    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        registers!(self, vbslq_f32(vcltq_f32(a, b), a, b))
    }

    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        registers!(self, vbslq_f32(vcgtq_f32(a, b), a, b))
    }

    /// The estimate is within 2^-8; each Newton step `r (2 - v r)` squares that.
    #[inline(always)]
    fn reciprocal(self, v: float32x4_t) -> float32x4_t {
        registers!(self, {
            let r = vrecpeq_f32(v);
            let r = vmulq_f32(r, vrecpsq_f32(v, r));
            vmulq_f32(r, vrecpsq_f32(v, r))
        })
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
        registers!(
            self,
            vsubq_f32(Simd::<f32>::reciprocal(self, v), vdupq_n_f32(1.0))
        )
    }

    #[inline(always)]
    fn exp(self, v: float32x4_t) -> float32x4_t {
        registers!(self, {
            // The bounds come first: `min` and `max` then let NaN pass.
            let x = Simd::<f32>::min(self, vdupq_n_f32(HIGHEST), v);
            let x = Simd::<f32>::max(self, vdupq_n_f32(LOWEST), x);
            let n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(LOG2_E)));
            let r = vfmsq_f32(x, n, vdupq_n_f32(LN2_HIGH));
            let r = vfmsq_f32(r, n, vdupq_n_f32(LN2_LOW));
            let [c0, c1, c2, c3, c4, c5] = COEFFICIENTS.map(|c| vdupq_n_f32(c));
            let p = vfmaq_f32(c4, c5, r);
            let p = vfmaq_f32(c3, p, r);
            let p = vfmaq_f32(c2, p, r);
            let p = vfmaq_f32(c1, p, r);
            let p = vfmaq_f32(c0, p, r);
            let one_and_r = vaddq_f32(r, vdupq_n_f32(1.0));
            let p = vfmaq_f32(one_and_r, p, vmulq_f32(r, r));
            // 2^n in two factors: n may be 128.
            let n = vcvtnq_s32_f32(n);
            let half = vshrq_n_s32::<1>(n);
            let rest = vsubq_s32(n, half);
            let power = |n: int32x4_t| {
                vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))))
            };
            let y = vmulq_f32(vmulq_f32(p, power(half)), power(rest));
            // NaN compares neither way and is kept.
            let low = vcltq_f32(v, vdupq_n_f32(LOWEST));
            let high = vcgtq_f32(v, vdupq_n_f32(HIGHEST));
            let y = vbslq_f32(low, vdupq_n_f32(0.0), y);
            vbslq_f32(high, vdupq_n_f32(f32::INFINITY), y)
        })
    }

    #[inline(always)]
    fn exp2(self, v: float32x4_t) -> float32x4_t {
        registers!(self, {
            let lowest = vdupq_n_f32(LOWEST_POWER);
            let x = Simd::<f32>::max(self, lowest, v);
            let n = vrndmq_f32(x);
            let r = vsubq_f32(x, n);
            let [c0, c1, c2, c3, c4, c5, c6] = POWER_OF_TWO.map(|c| vdupq_n_f32(c));
            let p = vfmaq_f32(c5, c6, r);
            let p = vfmaq_f32(c4, p, r);
            let p = vfmaq_f32(c3, p, r);
            let p = vfmaq_f32(c2, p, r);
            let p = vfmaq_f32(c1, p, r);
            let p = vfmaq_f32(c0, p, r);
            // Adding to the exponent's bits; for NaN it adds 0.
            let n = vshlq_n_s32::<23>(vcvtq_s32_f32(n));
            let y = vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), n));
            vbslq_f32(vcltq_f32(v, lowest), vdupq_n_f32(0.0), y)
        })
    }

    #[inline(always)]
    fn less(self, a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        registers!(self, vcltq_f32(a, b))
    }

    #[inline(always)]
    fn select(self, mask: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        registers!(self, vbslq_f32(mask, a, b))
    }

    #[inline(always)]
    fn sum(self, v: float32x4_t) -> f32 {
        registers!(self, vaddvq_f32(v))
    }

    #[inline(always)]
    fn largest(self, v: float32x4_t) -> f32 {
        registers!(self, vmaxnmvq_f32(v))
    }
}
