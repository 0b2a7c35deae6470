//! Terms of pairwise scores.

use attention_kernels::{PairwiseTerm, Real, Simd};

/// `tanh(q + k)`: additive attention, which the oracle knows.
#[derive(Debug)]
pub(super) struct TanhOfSum;

impl PairwiseTerm for TanhOfSum {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let constant = |x| simd.splat(E::from_f64(x));
        let double = simd.mul(constant(2.0), simd.add(query, key));
        let double = simd.max(constant(-40.0), simd.min(constant(40.0), double));
        let inverse = simd.reciprocal(simd.add(simd.exp(double), constant(1.0)));
        simd.neg_mul_add(constant(2.0), inverse, constant(1.0))
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let tanh = self.value(simd, query, key);
        [simd.neg_mul_add(tanh, tanh, simd.splat(E::ONE)); 2]
    }
}
