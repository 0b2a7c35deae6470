//! AVX-512: sixteen `f32` in a vector, thirty-two registers. Kernels for `f64` use AVX2's.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::exp::{HIGHEST, LOG2_E, LOWEST, LOWEST_POWER, bounded, exp_of_rest, exp2_of_rest};
use super::{Simd, register_methods, registers, square_len, token};

token!(
    /// Proof that the machine has AVX-512 F and DQ, AVX2 and FMA.
    Avx512, run_avx512, is_x86_feature_detected, ["avx512f", "avx512dq", "avx2", "fma"]
);

impl Avx512 {
    /// The instruction set that is part of this one.
    #[inline(always)]
    pub(super) fn avx2(self) -> Avx2 {
        Avx2::of(self)
    }
}

impl Simd<f32> for Avx512 {
    type V = __m512;
    type M = __mmask16;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;

    register_methods! {
        fn splat(x: f32) -> __m512 { _mm512_set1_ps(x) }
        fn add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        fn sub(a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        fn mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        fn neg_mul_add(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fnmadd_ps(a, b, c) }
        fn min(a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        fn max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        fn sqrt(v: __m512) -> __m512 { _mm512_sqrt_ps(v) }
        fn less(a: __m512, b: __m512) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
        fn select(mask: __mmask16, a: __m512, b: __m512) -> __m512 { _mm512_mask_blend_ps(mask, b, a) }
        fn sum(v: __m512) -> f32 { _mm512_reduce_add_ps(v) }
        /// `max` returns its second operand where the first is NaN.
        fn largest(v: __m512) -> f32 { _mm512_reduce_max_ps(_mm512_max_ps(v, _mm512_set1_ps(f32::NEG_INFINITY))) }
        /// The relative error of the estimate is at most 2^-14; a Newton step `r (2 - v r)` squares it.
        fn reciprocal(v: __m512) -> __m512 {{
            let r = _mm512_rcp14_ps(v);
            _mm512_mul_ps(r, _mm512_fnmadd_ps(v, r, _mm512_set1_ps(2.0)))
        }}
        fn add_reciprocal(v: __m512, sum: __m512) -> __m512 {{
            let r = _mm512_rcp14_ps(v);
            _mm512_fmadd_ps(r, _mm512_fnmadd_ps(v, r, _mm512_set1_ps(2.0)), sum)
        }}
        fn add_quotient(a: __m512, v: __m512, sum: __m512) -> __m512 {{
            let r = _mm512_rcp14_ps(v);
            let correction = _mm512_fnmadd_ps(v, r, _mm512_set1_ps(2.0));
            _mm512_fmadd_ps(_mm512_mul_ps(a, r), correction, sum)
        }}
        fn reciprocal_less_one(v: __m512) -> __m512 {{
            let r = _mm512_rcp14_ps(v);
            let correction = _mm512_fnmadd_ps(v, r, _mm512_set1_ps(2.0));
            _mm512_fmadd_ps(r, correction, _mm512_set1_ps(-1.0))
        }}
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        let from = &from[..16];
        // SAFETY: the token proves that the instruction exists, and `from` has the sixteen elements it reads.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32]) {
        let to = &mut to[..16];
        // SAFETY: the token proves that the instruction exists, and `to` has the sixteen elements it writes.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> __m512 {
        if from.len() == 16 {
            return self.load(from);
        }
        let lanes = first_lanes(from.len());
        // SAFETY: the token proves that the instruction exists; it reads only the lanes of the mask, one for each
        // element of `from`.
        unsafe { _mm512_maskz_loadu_ps(lanes, from.as_ptr()) }
    }

    #[inline(always)]
    fn store_partial(self, v: __m512, to: &mut [f32]) {
        if to.len() == 16 {
            return self.store(v, to);
        }
        let lanes = first_lanes(to.len());
        // SAFETY: the token proves that the instruction exists; it writes only the lanes of the mask, one for each
        // element of `to`.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), lanes, v) }
    }

    #[inline(always)]
    fn exp(self, v: __m512) -> __m512 {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        let x = bounded(self, LOWEST - 1.0, v, HIGHEST + 1.0);
        let n = registers!(self, {
            let scaled = _mm512_mul_ps(x, _mm512_set1_ps(LOG2_E));
            _mm512_roundscale_ps::<NEAREST>(scaled)
        });
        let p = exp_of_rest(self, x, n);
        registers!(self, {
            let y = _mm512_scalef_ps(p, n);
            // NaN compares false with both, and is kept.
            let low = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(v, _mm512_set1_ps(LOWEST));
            _mm512_mask_mov_ps(y, low, _mm512_setzero_ps())
        })
    }

    /// `reduce` leaves `v - floor(v)`, and `scalef` takes the floor of its exponent itself.
    #[inline(always)]
    fn exp2(self, v: __m512) -> __m512 {
        const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
        let r = registers!(self, _mm512_reduce_ps::<DOWN>(v));
        let p = exp2_of_rest(self, r);
        registers!(self, {
            // "Not less" holds for NaN.
            let normal = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(v, _mm512_set1_ps(LOWEST_POWER));
            _mm512_maskz_scalef_ps(normal, p, v)
        })
    }

    /// Interleaves elements, then pairs of elements, then quarters of vectors.
    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        assert!(from.len() >= square_len(16, from_stride) && to.len() >= square_len(16, to_stride));
        let mut rows = [Simd::<f32>::zero(self); 16];
        for (r, row) in rows.iter_mut().enumerate() {
            // SAFETY: the token proves that the instruction exists, and the assertion covers the last of the sixteen
            // rows of sixteen elements.
            *row = unsafe { _mm512_loadu_ps(from.as_ptr().add(r * from_stride)) };
        }
        let columns = registers!(self, {
            let mut pairs = rows;
            for r in (0..16).step_by(2) {
                pairs[r] = _mm512_unpacklo_ps(rows[r], rows[r + 1]);
                pairs[r + 1] = _mm512_unpackhi_ps(rows[r], rows[r + 1]);
            }
            // `fours[4 q + x]` holds column `x` of each quarter of the rows `4 q..4 q + 4`.
            let mut fours = pairs;
            for q in (0..16).step_by(4) {
                let a = _mm512_castps_pd(pairs[q]);
                let b = _mm512_castps_pd(pairs[q + 1]);
                let c = _mm512_castps_pd(pairs[q + 2]);
                let d = _mm512_castps_pd(pairs[q + 3]);
                fours[q] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
                fours[q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
                fours[q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
                fours[q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
            }
            let mut columns = fours;
            for x in 0..4 {
                let even_low = _mm512_shuffle_f32x4::<0x88>(fours[x], fours[4 + x]);
                let odd_low = _mm512_shuffle_f32x4::<0xdd>(fours[x], fours[4 + x]);
                let even_high = _mm512_shuffle_f32x4::<0x88>(fours[8 + x], fours[12 + x]);
                let odd_high = _mm512_shuffle_f32x4::<0xdd>(fours[8 + x], fours[12 + x]);
                columns[x] = _mm512_shuffle_f32x4::<0x88>(even_low, even_high);
                columns[4 + x] = _mm512_shuffle_f32x4::<0x88>(odd_low, odd_high);
                columns[8 + x] = _mm512_shuffle_f32x4::<0xdd>(even_low, even_high);
                columns[12 + x] = _mm512_shuffle_f32x4::<0xdd>(odd_low, odd_high);
            }
            columns
        });
        for (x, column) in columns.into_iter().enumerate() {
            // SAFETY: the token proves that the instruction exists, and the assertion covers the last of the sixteen
            // columns of sixteen elements.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr().add(x * to_stride), column) };
        }
    }
}

/// A mask of the first `count` lanes.
#[inline(always)]
fn first_lanes(count: usize) -> __mmask16 {
    assert!(count <= 16, "a vector has 16 lanes, not {count}");
    ((1_u32 << count) - 1) as __mmask16
}
