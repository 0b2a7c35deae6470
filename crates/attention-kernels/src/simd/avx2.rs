//! AVX2 and FMA: eight `f32` in a vector, sixteen registers.

use std::arch::x86_64::*;

use super::array::array_simd;
use super::exp::{
    COEFFICIENTS, HIGHEST, LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, LOWEST_POWER, POWER_OF_TWO,
};
use super::{Simd, registers, square_len, token};

token!(
    /// Proof that the machine has AVX2 and FMA.
    Avx2, is_x86_feature_detected, ["avx2", "fma"]
);

array_simd!(Avx2, f64, lanes: 8, registers: 16, mul_add: f64::mul_add);

impl Simd<f32> for Avx2 {
    type V = __m256;
    type M = __m256;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        registers!(self, _mm256_set1_ps(x))
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        let from = &from[..8];
        // SAFETY: the token proves that the instruction is there, and `from` has the eight elements it reads.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m256, to: &mut [f32]) {
        let to = &mut to[..8];
        // SAFETY: the token proves that the instruction is there, and `to` has the eight elements it writes.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        registers!(self, _mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        registers!(self, _mm256_fnmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_min_ps(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_max_ps(a, b))
    }

    /// The estimate is within 1.5 * 2^-12; a Newton step `r + r (1 - v r)` squares that, to 1.6 * 10^-7.
    #[inline(always)]
    fn reciprocal(self, v: __m256) -> __m256 {
        registers!(self, {
            let r = _mm256_rcp_ps(v);
            _mm256_fmadd_ps(r, _mm256_fnmadd_ps(v, r, _mm256_set1_ps(1.0)), r)
        })
    }

    #[inline(always)]
    fn add_reciprocal(self, v: __m256, sum: __m256) -> __m256 {
        registers!(self, {
            let r = _mm256_rcp_ps(v);
            _mm256_fmadd_ps(r, _mm256_fnmadd_ps(v, r, _mm256_set1_ps(2.0)), sum)
        })
    }

    #[inline(always)]
    fn add_quotient(self, a: __m256, v: __m256, sum: __m256) -> __m256 {
        registers!(self, {
            let r = _mm256_rcp_ps(v);
            let correction = _mm256_fnmadd_ps(v, r, _mm256_set1_ps(2.0));
            _mm256_fmadd_ps(_mm256_mul_ps(a, r), correction, sum)
        })
    }

    #[inline(always)]
    fn reciprocal_less_one(self, v: __m256) -> __m256 {
        registers!(self, {
            let r = _mm256_rcp_ps(v);
            let correction = _mm256_fnmadd_ps(v, r, _mm256_set1_ps(2.0));
            _mm256_fmadd_ps(r, correction, _mm256_set1_ps(-1.0))
        })
    }

    #[inline(always)]
    fn exp(self, v: __m256) -> __m256 {
        registers!(self, {
            // The bounds come first: `min` and `max` then let NaN pass.
            let x = _mm256_min_ps(_mm256_set1_ps(HIGHEST), v);
            let x = _mm256_max_ps(_mm256_set1_ps(LOWEST), x);
            let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                _mm256_mul_ps(x, _mm256_set1_ps(LOG2_E)),
            );
            let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
            let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
            let [c0, c1, c2, c3, c4, c5] = COEFFICIENTS.map(|c| _mm256_set1_ps(c));
            let p = _mm256_fmadd_ps(c5, r, c4);
            let p = _mm256_fmadd_ps(p, r, c3);
            let p = _mm256_fmadd_ps(p, r, c2);
            let p = _mm256_fmadd_ps(p, r, c1);
            let p = _mm256_fmadd_ps(p, r, c0);
            let one_and_r = _mm256_add_ps(r, _mm256_set1_ps(1.0));
            let p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), one_and_r);
            // 2^n in two factors: n may be 128.
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            let rest = _mm256_sub_epi32(n, half);
            let power = |n: __m256i| {
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
                    n,
                    _mm256_set1_epi32(127),
                )))
            };
            let y = _mm256_mul_ps(_mm256_mul_ps(p, power(half)), power(rest));
            // NaN compares neither way and is kept.
            let low = _mm256_cmp_ps::<_CMP_LT_OQ>(v, _mm256_set1_ps(LOWEST));
            let high = _mm256_cmp_ps::<_CMP_GT_OQ>(v, _mm256_set1_ps(HIGHEST));
            let y = _mm256_andnot_ps(low, y);
            _mm256_blendv_ps(y, _mm256_set1_ps(f32::INFINITY), high)
        })
    }

    #[inline(always)]
    fn exp2(self, v: __m256) -> __m256 {
        registers!(self, {
            let lowest = _mm256_set1_ps(LOWEST_POWER);
            // The bound comes first: `max` then lets NaN pass.
            let x = _mm256_max_ps(lowest, v);
            let n = _mm256_floor_ps(x);
            let r = _mm256_sub_ps(x, n);
            let [c0, c1, c2, c3, c4, c5, c6] = POWER_OF_TWO.map(|c| _mm256_set1_ps(c));
            let p = _mm256_fmadd_ps(c6, r, c5);
            let p = _mm256_fmadd_ps(p, r, c4);
            let p = _mm256_fmadd_ps(p, r, c3);
            let p = _mm256_fmadd_ps(p, r, c2);
            let p = _mm256_fmadd_ps(p, r, c1);
            let p = _mm256_fmadd_ps(p, r, c0);
            // Adding to the exponent's bits; for NaN it adds 0.
            let n = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
            let y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
            _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(v, lowest), y)
        })
    }

    /// Pairs of elements, then of pairs, then halves of vectors are interleaved.
    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        assert!(from.len() >= square_len(8, from_stride) && to.len() >= square_len(8, to_stride));
        let mut rows = [Simd::<f32>::zero(self); 8];
        for (r, row) in rows.iter_mut().enumerate() {
            // SAFETY: the token proves that the instruction is there, and the assertion covers the last of the
            // eight rows of eight elements.
            *row = unsafe { _mm256_loadu_ps(from.as_ptr().add(r * from_stride)) };
        }
        let columns = registers!(self, {
            let mut pairs = rows;
            for r in (0..8).step_by(2) {
                pairs[r] = _mm256_unpacklo_ps(rows[r], rows[r + 1]);
                pairs[r + 1] = _mm256_unpackhi_ps(rows[r], rows[r + 1]);
            }
            // `fours[4 q + x]` holds column `x` of each half of the rows `4 q..4 q + 4`.
            let mut fours = pairs;
            for q in (0..8).step_by(4) {
                let a = _mm256_castps_pd(pairs[q]);
                let b = _mm256_castps_pd(pairs[q + 1]);
                let c = _mm256_castps_pd(pairs[q + 2]);
                let d = _mm256_castps_pd(pairs[q + 3]);
                fours[q] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
                fours[q + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
                fours[q + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
                fours[q + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
            }
            let mut columns = fours;
            for x in 0..4 {
                columns[x] = _mm256_permute2f128_ps::<0x20>(fours[x], fours[4 + x]);
                columns[4 + x] = _mm256_permute2f128_ps::<0x31>(fours[x], fours[4 + x]);
            }
            columns
        });
        for (x, column) in columns.into_iter().enumerate() {
            // SAFETY: the token proves that the instruction is there, and the assertion covers the last of the
            // eight columns of eight elements.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr().add(x * to_stride), column) };
        }
    }

    #[inline(always)]
    fn less(self, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
    }

    #[inline(always)]
    fn select(self, mask: __m256, a: __m256, b: __m256) -> __m256 {
        registers!(self, _mm256_blendv_ps(b, a, mask))
    }

    #[inline(always)]
    fn sum(self, v: __m256) -> f32 {
        registers!(self, {
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }

    #[inline(always)]
    fn largest(self, v: __m256) -> f32 {
        registers!(self, {
            // `max` returns its second operand where the first is NaN.
            let v = _mm256_max_ps(v, _mm256_set1_ps(f32::NEG_INFINITY));
            let four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        })
    }
}
