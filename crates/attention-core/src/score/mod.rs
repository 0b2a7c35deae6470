//! Scoring functions: how well a key answers a query. One file each.

mod additive;
mod bilinear;
mod concat;
mod cosine;
mod dot_family;
mod dot_product;
mod gaussian;
mod kernel;
mod norms;
mod projected;

pub use additive::{AdditiveScore, AdditiveScoreConfig};
pub use bilinear::{BilinearScore, BilinearScoreConfig};
pub use concat::{ConcatScore, ConcatScoreConfig};
pub use cosine::{CosineScore, CosineScoreConfig};
pub use dot_family::DotFamily;
pub use dot_product::{DotProductScore, DotProductScoreConfig};
pub use gaussian::{GaussianScore, GaussianScoreConfig};
pub use kernel::{Kernel, KernelScore, KernelScoreConfig};
pub(crate) use norms::{smallest_normal, widened};
pub use projected::{ProjectedScore, ProjectedScoreConfig};

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Distribution, Tensor};

use crate::{Mask, Memory, masked_softmax, ops};

/// A scoring function `a(query, key)`: the first arrow of the pipeline, and all that differs between attentions.
///
/// Implement [`score`](Self::score) and [`Attention`](crate::Attention) adds masks, softmax, dropout, the
/// weighted sum and [`Memory`](crate::Memory). The other methods have defaults: override the projections for
/// work on one side only (done once per key, however many queries come), and [`attend`](Self::attend) where a
/// way from scores to context exists that need not store the scores. Where a score is a dot product of mapped queries
/// and keys, implement [`DotFamily`] instead: it has such a way.
///
/// Without heads (`[batch, rows, size]`), the heads axis has size 1.
///
/// ```
/// use attention_core::{Attention, Mask, ScoringFunction};
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
/// let device = Device::flex();
/// let attention = Attention::new(DistanceScore {}, 0.0);
/// let queries = Tensor::<3>::ones([1, 2, 3], &device);
/// let keys = Tensor::<3>::ones([1, 5, 3], &device);
/// let context = attention.forward(queries, keys.clone(), keys, &Mask::none());
/// assert_eq!(context.dims(), [1, 2, 3]);
/// ```
pub trait ScoringFunction: Module + ModuleDisplay + 'static {
    /// What can be computed from the queries alone.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, query_size]`, result `[batch, heads, queries, _]`
    fn project_queries(&self, queries: Tensor<4>) -> Tensor<4> {
        queries
    }

    /// What can be computed from the keys alone; [`Memory`](crate::Memory) keeps it.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, key_size]`, result `[batch, heads, keys, _]`
    fn project_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        keys
    }

    /// The scores of all pairs, from projected queries and keys.
    ///
    /// The mask is a hint: scores of masked pairs are ignored, so a kernel need not compute them.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, _]`, keys `[batch, heads, keys, _]`
    /// - result `[batch, heads, queries, keys]`
    ///
    /// A score of `-inf` hides a key from the softmax. Only the mask makes its value inert as well: a NaN in the
    /// value of a key that is hidden by its score alone reaches the context.
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4>;

    /// What else a memory keeps of the projected keys, for all calls of [`attend`](Self::attend); the first axis is the
    /// batch. `mask` is what is known of the mask before the queries come, for `num_queries` of them.
    fn extend_keys(
        &self,
        _keys: &Tensor<4>,
        _mask: &Mask,
        _num_queries: usize,
    ) -> Option<Tensor<4>> {
        None
    }

    /// The context, from projected queries and the projected keys of a memory, with softmax; `dropout` is 0 when not
    /// training.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, _]`, result `[batch, heads, queries, value_size]`
    fn attend(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
        pool(
            self.score(queries, memory.keys(), memory.mask()),
            memory,
            dropout,
        )
    }

    /// [`attend`](Self::attend), with `bias` added to the scores: what [`Biased`](crate::Biased) calls.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, _]`, bias `[batch or 1, heads or 1, queries or 1, keys]`
    fn attend_with_bias(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        dropout: f64,
        bias: Tensor<4>,
    ) -> Tensor<4> {
        let scores = self.score(queries, memory.keys(), memory.mask());
        pool(scores + bias, memory, dropout)
    }
}

/// Masked softmax, dropout and weighted sum, each a step of its own.
pub(crate) fn pool(scores: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
    let weights = drop_weights(masked_softmax(scores, memory.mask()), dropout);
    ops::weighted_sum(weights, memory.values(), memory.mask())
}

/// Dropout on the weights, after softmax: each is dropped with `probability` or scaled by `1 / (1 - p)`.
pub(crate) fn drop_weights(weights: Tensor<4>, probability: f64) -> Tensor<4> {
    if probability == 0.0 {
        return weights;
    }
    let keep = 1.0 - probability;
    let kept = weights.random_like(Distribution::Bernoulli(keep));
    weights * kept * (1.0 / keep)
}
