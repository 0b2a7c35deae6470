//! Terms of pairwise scores.

use attention_kernels::{PairwiseTerm, Real, Simd};

/// `tanh(q - k / 2)`, whose derivatives differ.
#[derive(Debug)]
pub(super) struct TanhOfDifference;

impl PairwiseTerm for TanhOfDifference {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.tanh(simd.neg_mul_add(simd.splat(E::from_f64(0.5)), key, query))
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let tanh = self.value(simd, query, key);
        let slope = simd.neg_mul_add(tanh, tanh, simd.splat(E::ONE));
        [slope, simd.mul(slope, simd.splat(E::from_f64(-0.5)))]
    }
}
