//! Terms of pairwise scores.

use attention_kernels::{PairwiseTerm, Real, Simd};

/// `tanh(q + k)`: additive attention, which the oracle knows.
#[derive(Debug)]
pub(super) struct TanhOfSum;

impl PairwiseTerm for TanhOfSum {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.tanh(simd.add(query, key))
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let tanh = self.value(simd, query, key);
        [simd.neg_mul_add(tanh, tanh, simd.splat(E::ONE)); 2]
    }
}
