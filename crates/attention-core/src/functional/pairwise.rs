//! Scores from a term of your own.

use burn::tensor::Tensor;

pub use attention_kernels::{PairwiseKernel, PairwiseTerm, Real, Simd};

/// A [`PairwiseTerm`], for the CPU kernels, and its definition in tensor operations, for all other devices and for
/// calls that no kernel computes: with weights requested or another normalizer than softmax. [`PairwiseTerm`] lists the
/// operations on lanes.
///
/// Every such term implements [`PairwiseKernel`] automatically. Both paths have gradients, to the weight and the
/// projections, too. The crate with the term compiles the kernels: give it `opt-level = 3` in its dev profile.
///
/// [`check_term`](crate::score::check_term) compares the two, and their derivatives.
///
/// ```
/// use std::sync::Arc;
///
/// use attention_core::position::Positions;
/// use attention_core::score::{
///     PairwiseFormula, PairwiseTerm, Real, ScoreKernel, Simd, check_term,
/// };
/// use attention_core::{Attention, Mask, ScoringFunction};
/// use burn::module::{Module, Param};
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
///
/// /// `|q + k|`
/// #[derive(Debug)]
/// struct Magnitude;
///
/// impl PairwiseTerm for Magnitude {
///     #[inline(always)]
///     fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
///         simd.abs(simd.add(query, key))
///     }
///
///     #[inline(always)]
///     fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
///         let is_negative = simd.less(simd.add(query, key), simd.zero());
///         [simd.select(is_negative, simd.splat(-E::ONE), simd.splat(E::ONE)); 2]
///     }
/// }
///
/// impl PairwiseFormula for Magnitude {
///     fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
///         (queries + keys).abs()
///     }
/// }
///
/// /// `w . |W_q q + W_k k|`
/// #[derive(Module, Debug)]
/// struct MagnitudeScore {
///     query: Linear,
///     key: Linear,
///     weight: Param<Tensor<1>>,
/// }
///
/// impl ScoringFunction for MagnitudeScore {
///     fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
///         self.query.forward(queries)
///     }
///
///     fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
///         self.key.forward(keys)
///     }
///
///     fn kernel(&self) -> ScoreKernel {
///         ScoreKernel::Pairwise {
///             term: Arc::new(Magnitude),
///             weight: Some(self.weight.val()),
///         }
///     }
/// }
///
/// let device = Device::flex();
/// check_term(&Magnitude, &device).unwrap();
/// let score = MagnitudeScore {
///     query: LinearConfig::new(4, 8).init(&device),
///     key: LinearConfig::new(6, 8).init(&device),
///     weight: Param::from_tensor(Tensor::ones([8], &device)),
/// };
/// let rows = |number, size| Tensor::<3>::ones([2, number, size], &device);
/// let attention = Attention::new(score, 0.0);
/// let context = attention.forward(rows(3, 4), rows(5, 6), rows(5, 7), Mask::none());
/// assert_eq!(context.dims(), [2, 3, 7]);
/// ```
pub trait PairwiseFormula: PairwiseKernel {
    /// `f(q, k)`, element by element.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, 1, size]`, keys `[batch, heads, 1, keys, size]`
    /// - result `[batch, heads, queries, keys, size]`
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5>;
}
