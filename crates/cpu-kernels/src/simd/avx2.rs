//! AVX2 and FMA: eight `f32` in a vector, sixteen registers.

use std::arch::x86_64::*;

use super::array::array_simd;
use super::avx512::Avx512;
use super::exp::{HIGHEST, LOG2_E, LOWEST, LOWEST_POWER, bounded, exp_of_rest, exp2_of_rest};
use super::{Simd, register_methods, registers, square_len, token};

token!(
    /// Proof that the machine has AVX2 and FMA.
    Avx2, run_avx2, is_x86_feature_detected, ["avx2", "fma"]
);

impl Avx2 {
    /// AVX-512's token includes this one.
    #[inline(always)]
    pub(super) fn of(_: Avx512) -> Self {
        Self(())
    }
}

array_simd!(Avx2, f64, lanes: 8, registers: 16, mul_add: f64::mul_add);

impl Simd<f32> for Avx2 {
    type V = __m256;
    type M = __m256;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    register_methods! {
        fn splat(x: f32) -> __m256 { _mm256_set1_ps(x) }
        fn add(a: __m256, b: __m256) -> __m256 { _mm256_add_ps(a, b) }
        fn sub(a: __m256, b: __m256) -> __m256 { _mm256_sub_ps(a, b) }
        fn mul(a: __m256, b: __m256) -> __m256 { _mm256_mul_ps(a, b) }
        fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }
        fn neg_mul_add(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fnmadd_ps(a, b, c) }
        fn min(a: __m256, b: __m256) -> __m256 { _mm256_min_ps(a, b) }
        fn max(a: __m256, b: __m256) -> __m256 { _mm256_max_ps(a, b) }
        fn sqrt(v: __m256) -> __m256 { _mm256_sqrt_ps(v) }
        fn less(a: __m256, b: __m256) -> __m256 { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
        fn select(mask: __m256, a: __m256, b: __m256) -> __m256 { _mm256_blendv_ps(b, a, mask) }
        fn sum(v: __m256) -> f32 {{
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }}
        fn largest(v: __m256) -> f32 {{
            // `max` returns its second operand where the first is NaN.
            let v = _mm256_max_ps(v, _mm256_set1_ps(f32::NEG_INFINITY));
            let four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }}
        /// The estimate is within 1.5 * 2^-12, relatively; a Newton step `r + r (1 - v r)` squares that, to 1.6 *
        /// 10^-7.
        fn reciprocal(v: __m256) -> __m256 {{
            let r = _mm256_rcp_ps(v);
            _mm256_fmadd_ps(r, _mm256_fnmadd_ps(v, r, _mm256_set1_ps(1.0)), r)
        }}
        fn add_reciprocal(v: __m256, sum: __m256) -> __m256 {{
            let r = _mm256_rcp_ps(v);
            _mm256_fmadd_ps(r, _mm256_fnmadd_ps(v, r, _mm256_set1_ps(2.0)), sum)
        }}
        fn add_quotient(a: __m256, v: __m256, sum: __m256) -> __m256 {{
            let r = _mm256_rcp_ps(v);
            let correction = _mm256_fnmadd_ps(v, r, _mm256_set1_ps(2.0));
            _mm256_fmadd_ps(_mm256_mul_ps(a, r), correction, sum)
        }}
        fn reciprocal_less_one(v: __m256) -> __m256 {{
            let r = _mm256_rcp_ps(v);
            let correction = _mm256_fnmadd_ps(v, r, _mm256_set1_ps(2.0));
            _mm256_fmadd_ps(r, correction, _mm256_set1_ps(-1.0))
        }}
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        let from = &from[..8];
        // SAFETY: the token proves that the instruction exists, and `from` has the eight elements it reads.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m256, to: &mut [f32]) {
        let to = &mut to[..8];
        // SAFETY: the token proves that the instruction exists, and `to` has the eight elements it writes.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn exp(self, v: __m256) -> __m256 {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        let x = bounded(self, LOWEST, v, HIGHEST);
        let n = registers!(
            self,
            _mm256_round_ps::<NEAREST>(_mm256_mul_ps(x, _mm256_set1_ps(LOG2_E)))
        );
        let p = exp_of_rest(self, x, n);
        registers!(self, {
            // 2^n as two factors, because n may be 128.
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            let rest = _mm256_sub_epi32(n, half);
            let power = |n: __m256i| {
                let biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            };
            let y = _mm256_mul_ps(_mm256_mul_ps(p, power(half)), power(rest));
            // NaN compares false with both, and is kept.
            let low = _mm256_cmp_ps::<_CMP_LT_OQ>(v, _mm256_set1_ps(LOWEST));
            let high = _mm256_cmp_ps::<_CMP_GT_OQ>(v, _mm256_set1_ps(HIGHEST));
            let y = _mm256_andnot_ps(low, y);
            _mm256_blendv_ps(y, _mm256_set1_ps(f32::INFINITY), high)
        })
    }

    #[inline(always)]
    fn exp2(self, v: __m256) -> __m256 {
        let [n, r] = registers!(self, {
            // The bound is the first argument, so that `max` lets NaN pass.
            let x = _mm256_max_ps(_mm256_set1_ps(LOWEST_POWER), v);
            let n = _mm256_floor_ps(x);
            [n, _mm256_sub_ps(x, n)]
        });
        let p = exp2_of_rest(self, r);
        registers!(self, {
            // Adds to the exponent bits; for NaN it adds 0.
            let n = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
            let y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
            let low = _mm256_cmp_ps::<_CMP_LT_OQ>(v, _mm256_set1_ps(LOWEST_POWER));
            _mm256_andnot_ps(low, y)
        })
    }

    /// Interleaves elements, then pairs of elements, then halves of vectors.
    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        assert!(from.len() >= square_len(8, from_stride) && to.len() >= square_len(8, to_stride));
        let mut rows = [Simd::<f32>::zero(self); 8];
        for (r, row) in rows.iter_mut().enumerate() {
            // SAFETY: the token proves that the instruction exists, and the assertion covers the last of the eight rows
            // of eight elements.
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
            // SAFETY: the token proves that the instruction exists, and the assertion covers the last of the eight
            // columns of eight elements.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr().add(x * to_stride), column) };
        }
    }
}
