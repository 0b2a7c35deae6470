//! Scoring functions: how well a key matches a query. One file each.

mod additive;
mod biaffine;
mod biased;
mod bilinear;
mod check_term;
mod concat;
mod cosine;
mod dot_product;
mod gaussian;
mod norms;
mod projected;
mod qk_norm;
mod smoothing;

pub use crate::functional::{PairwiseFormula, PairwiseKernel, PairwiseTerm, Real, Simd};
pub use additive::{AdditiveScore, AdditiveScoreConfig};
pub use biaffine::{BiaffineScore, BiaffineScoreConfig};
pub use biased::Biased;
pub use bilinear::{BilinearScore, BilinearScoreConfig};
pub use check_term::{TermError, check_term};
pub use concat::{ConcatScore, ConcatScoreConfig};
pub use cosine::{CosineScore, CosineScoreConfig};
pub use dot_product::{DotProductScore, DotProductScoreConfig};
pub use gaussian::{GaussianScore, GaussianScoreConfig};
pub(crate) use norms::smallest_normal;
pub use projected::{ProjectedScore, ProjectedScoreConfig};
pub use qk_norm::{QkNormScore, QkNormScoreConfig};
pub use smoothing::{Kernel, KernelScore, KernelScoreConfig};

use std::any::type_name;
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::wide::widened;

use crate::functional::{
    self, additive_score, default_scale, dot_product_score, pairwise_score, per_head, sum_of_biases,
};
use crate::mask::Mask;
use crate::position::Positions;

/// How scores are computed from projected queries and keys. It decides, on every device, which code runs.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a call")]
pub enum ScoreKernel {
    /// `scale q . k + key_bias(k) + query_bias(q)` and a [`PositionTerm`], in the fused dot-product attention, which
    /// stores neither scores nor weights, even in training. (The steps of a decoder keep a row of each until their
    /// backward pass sums all gradients at once.)
    Dot {
        /// The factor on the products; `1 / sqrt(size)` if `None`.
        scale: Option<f64>,
    },
    /// `weight . tanh(q + k)` and a [`PositionTerm`], in the additive attention, which stores no hidden unit of a pair.
    Additive {
        /// The weight of each hidden unit, `[num_hiddens]`.
        weight: Tensor<1>,
    },
    /// `sum_h weight[h] f(q[h], k[h])` and a [`PositionTerm`]: fused on a CPU, like additive attention, and composed of
    /// tensor operations elsewhere. (In training, each step of a decoder computes gradients of all keys and values.)
    Pairwise {
        /// The formula `f`.
        term: Arc<dyn PairwiseFormula>,
        /// The weight of each hidden unit, `[num_hiddens]`; `None` for ones.
        weight: Option<Tensor<1>>,
    },
    /// [`ScoringFunction::score`], composed of tensor operations.
    Custom,
}

/// The term of a score that depends on the positions of query and key, not on their content.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a call")]
pub enum PositionTerm {
    /// Nothing.
    None,
    /// The same term for all queries: a bias per key, `[1, heads or 1, 1, keys]`, in the type of the queries or a more
    /// precise one. The kernels of scores add it. It depends on the place of the key alone (in a cache with a window,
    /// among the keys that are there); a term of distances is a `PerDistance`, for one query, too.
    PerKey(Tensor<4>),
    /// A term for each distance, `[1, heads or 1, 1, queries + keys - 1]`: element `j - i + queries - 1` for query `i`
    /// and key `j`. The kernels of scores add it.
    PerDistance(Tensor<4>),
    /// A different term for each pair, which [`ScoringFunction::score`] adds.
    PerPair,
}

impl PositionTerm {
    /// The sum of both terms.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, term) | (term, Self::None) => term,
            (Self::PerKey(a), Self::PerKey(b)) => Self::PerKey(sum_of_biases(a, b)),
            (Self::PerDistance(a), Self::PerDistance(b)) => Self::PerDistance(sum_of_biases(a, b)),
            _ => Self::PerPair,
        }
    }
}

/// A scoring function `a(query, key)`: the first arrow of the pipeline, and all that differs between attentions.
///
/// [`Attention`](crate::Attention) adds masks, softmax, dropout, the weighted sum and [`Memory`](crate::Memory).
/// Implement one of
///
/// - [`score`](Self::score), for anything that tensors can express;
/// - [`kernel`](Self::kernel), if the score of projected queries and keys is a dot product, an additive score or a sum
///   of pairwise terms of your own.
///
/// Override the projections for work on one side only, which is then done once per key, however many queries follow.
///
/// Without heads (`[batch, queries or keys, size]`), the heads axis here has size 1.
///
/// ```
/// use attention_core::{Attention, Mask, ScoringFunction};
/// use attention_core::score::ScoreKernel;
/// use burn::module::Module;
/// use burn::prelude::*;
///
/// /// `-|q - k|`: the nearer the key, the higher the score.
/// #[derive(Module, Debug)]
/// struct DistanceScore {}
///
/// impl ScoringFunction for DistanceScore {
///     fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
///         let difference = queries.unsqueeze_dim::<5>(3) - keys.unsqueeze_dim::<5>(2);
///         -difference.abs().sum_dim(4).squeeze_dim::<4>(4)
///     }
/// }
///
/// /// `q . k`, unscaled, through the fused kernel.
/// #[derive(Module, Debug)]
/// struct ProductScore {}
///
/// impl ScoringFunction for ProductScore {
///     fn compares_as_given(&self) -> bool {
///         true
///     }
///
///     fn kernel(&self) -> ScoreKernel {
///         ScoreKernel::Dot { scale: Some(1.0) }
///     }
/// }
///
/// let device = Device::flex();
/// let queries = Tensor::<3>::ones([1, 2, 3], &device);
/// let keys = Tensor::<3>::ones([1, 5, 3], &device);
/// let forward = |attention: &dyn Fn(Tensor<3>, Tensor<3>) -> Tensor<3>| {
///     attention(queries.clone(), keys.clone()).dims()
/// };
/// let distance = Attention::new(DistanceScore {}, 0.0);
/// assert_eq!(forward(&|q, k| distance.forward(q, k.clone(), k, &Mask::none())), [1, 2, 3]);
/// let product = Attention::new(ProductScore {}, 0.0);
/// assert_eq!(forward(&|q, k| product.forward(q, k.clone(), k, &Mask::none())), [1, 2, 3]);
/// ```
pub trait ScoringFunction: Module + ModuleDisplay + 'static {
    /// Projects the queries: the part of the score that depends on them alone.
    ///
    /// `positions` are the queries', counted as the keys' are; most scores ignore them. [`Attention`](crate::Attention)
    /// puts the last query at the last key: with more queries than keys, positions begin below 0.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, query_size]`, result `[batch, heads, queries, size]`
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        queries
    }

    /// Projects the keys; [`Memory`](crate::Memory) keeps the result. `positions` are those of the keys.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, key_size]`, result `[batch, heads, keys, size]`
    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        keys
    }

    /// Whether [`project_keys`](Self::project_keys) computes anything. If not, it is not called, and prepared keys that
    /// are a leaf of the graph support any number of backward passes.
    fn projects_keys(&self) -> bool {
        !self.compares_as_given()
    }

    /// Whether queries and keys are compared as they are given: neither projection computes anything, nor do
    /// [`key_bias`](Self::key_bias) and [`query_bias`](Self::query_bias), so [`Attention`](crate::Attention) need not
    /// call them.
    fn compares_as_given(&self) -> bool {
        false
    }

    /// How the scores are computed from projected queries and keys.
    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Custom
    }

    /// The bias that [`ScoreKernel::Dot`] adds to the scores of each projected key, if any; [`Memory`](crate::Memory)
    /// keeps it. A term that is equal for all keys of a query is a [`query_bias`](Self::query_bias).
    ///
    /// # Shapes
    /// - keys `[batch, key_heads, keys, size]`, result `[batch or 1, n, 1, keys]`, where `n` is heads, key_heads or 1
    fn key_bias(&self, _keys: &Tensor<4>) -> Option<Tensor<4>> {
        None
    }

    /// The term of each projected query in a [`ScoreKernel::Dot`], equal for all its keys: softmax ignores it, except
    /// beside sinks and under a `score_mod`. It is asked for only there, where kernels take it as a bias of each pair,
    /// and by other normalizers.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, size]`, result `[batch, heads, queries, 1]`
    fn query_bias(&self, _queries: &Tensor<4>) -> Option<Tensor<4>> {
        None
    }

    /// The term that positions add to the scores of `num_queries` queries of type `dtype`; the last one stands at the
    /// last key. All kinds but [`PerPair`](PositionTerm::PerPair) stay in the fused kernels. A [`score`](Self::score)
    /// that depends on the places of queries and keys in its arguments must return `PerPair`: in a
    /// [`KeyValueCache`](crate::KeyValueCache) the last key of an example need not be the last of the batch.
    fn position_term(
        &self,
        _num_queries: usize,
        _num_keys: usize,
        _device: &Device,
        _dtype: DType,
    ) -> PositionTerm {
        PositionTerm::None
    }

    /// The scores of all pairs of projected queries and keys; by default computed from [`kernel`](Self::kernel), the
    /// biases and [`position_term`](Self::position_term). It is called if weights are requested, the normalizer is not
    /// softmax, no kernel supports a [`ScoreKernel::Pairwise`], and always for [`ScoreKernel::Custom`]; calls with their
    /// own soft-cap, scale or extra keys use `kernel`.
    ///
    /// The mask is a hint: scores of masked pairs are ignored and need not be computed.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, size]`, keys `[batch, heads, keys, size]`; with a kernel other than
    ///   [`Custom`](ScoreKernel::Custom) keys may have fewer heads, shared by neighbouring heads of queries
    /// - result `[batch, heads, queries, keys]`
    ///
    /// A score of `-inf` masks a key in the softmax. Only the mask makes its value ignored as well: a NaN in the value
    /// of a key that is masked only by its score may reach the context.
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let [_, heads, num_queries, size] = queries.dims();
        let [_, _, num_keys, _] = keys.dims();
        let (device, dtype) = (queries.device(), queries.dtype());
        let mut biases = Vec::new();
        let scores = match self.kernel() {
            ScoreKernel::Dot { scale } => {
                biases.extend(self.key_bias(&keys).map(|bias| per_head(bias, heads)));
                biases.extend(self.query_bias(&queries));
                let scale = scale.unwrap_or_else(|| default_scale(size));
                dot_product_score(queries, keys, mask, scale)
            }
            ScoreKernel::Additive { weight } => additive_score(queries, keys, weight, mask),
            ScoreKernel::Pairwise { term, weight } => {
                pairwise_score(queries, keys, &*term, weight, mask)
            }
            ScoreKernel::Custom => panic!(
                "{}: expected a ScoringFunction with `score`, or with a `kernel` other than Custom",
                type_name::<Self>()
            ),
        };
        match self.position_term(num_queries, num_keys, &device, dtype) {
            PositionTerm::None => {}
            PositionTerm::PerKey(bias) => biases.push(checked_heads(bias, heads)),
            PositionTerm::PerDistance(bias) => {
                let bias = checked_heads(bias, heads);
                biases.push(functional::along_diagonals(bias, num_queries));
            }
            PositionTerm::PerPair => panic!(
                "{}: expected a ScoringFunction with `score`, which adds the term of positions per pair",
                type_name::<Self>()
            ),
        }
        // Like the fused kernel, a sum with a bias is not rounded to half precision.
        biases.into_iter().fold(scores, |scores, bias| {
            let scores = widened(scores);
            let dtype = scores.dtype();
            scores + bias.cast(dtype)
        })
    }
}

/// # Panics
/// If a size of the configuration of an additive (or similar) score is 0.
pub(crate) fn assert_sizes(config: &str, [query_size, key_size, num_hiddens]: [usize; 3]) {
    let sizes = [
        ("query_size", query_size),
        ("key_size", key_size),
        ("num_hiddens", num_hiddens),
    ];
    assert_positive(config, &sizes);
}

/// The given bias of positions.
///
/// # Panics
/// If it has neither 1 nor `heads` heads.
pub(crate) fn checked_heads(bias: Tensor<4>, heads: usize) -> Tensor<4> {
    let [_, bias_heads, ..] = bias.dims();
    assert!(
        bias_heads == 1 || bias_heads == heads,
        "PositionBias: a bias of {heads} heads expected for as many heads of scores, got one of {bias_heads}"
    );
    bias
}
