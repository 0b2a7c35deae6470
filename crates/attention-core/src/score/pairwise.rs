//! Scores from a term of one's own.

use burn::tensor::Tensor;

pub use attention_kernels::{PairwiseKernel, PairwiseTerm, Real, Simd};

/// A [`PairwiseTerm`], for the kernels of the CPU, and its definition in tensor operations, for all other devices and
/// for calls that no kernel computes: weights asked for, other normalizers than softmax.
///
/// [`check_term`](super::check_term) compares the two, and the derivatives with both.
pub trait PairwiseFormula: PairwiseKernel {
    /// `f(q, k)`, element by element.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, 1, size]`, keys `[batch, heads, 1, keys, size]`
    /// - result `[batch, heads, queries, keys, size]`
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5>;
}
