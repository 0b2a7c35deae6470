//! Biaffine score.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear_of;

use super::{ScoreKernel, ScoringFunction};
use crate::position::Positions;

/// Configuration of [`BiaffineScore`].
#[derive(Config, Debug)]
pub struct BiaffineScoreConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
}

impl BiaffineScoreConfig {
    /// A score with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> BiaffineScore {
        let sizes = [("query_size", self.query_size), ("key_size", self.key_size)];
        assert_positive("BiaffineScoreConfig", &sizes);
        let linear = |size| LinearConfig::new(self.query_size, size).init(device);
        BiaffineScore {
            query: linear(self.key_size),
            offset: linear(1),
        }
    }
}

/// `a(q, k) = q^T M k + u . q + v . k + b`, for queries and keys of any two sizes.
///
/// A [`BilinearScore`](crate::score::BilinearScore) plus a score of each key alone, `v . k`, which is independent of
/// the query. `u . q + b` is the same for all keys of a query: softmax ignores it, the sigmoid does not.
///
/// Computed as the dot product of `[M^T q + v, u . q + b]` and `[k, 1]`, which have one feature more than a key.
///
/// Dozat & Manning 2017, "Deep Biaffine Attention for Neural Dependency Parsing", section 3.1: it scores labels this
/// way, and arcs without `u` and `b`, from dependents (queries) to heads (keys).
///
/// PyTorch equivalent: `torch.nn.Bilinear(query_size + 1, key_size + 1, 1, bias=False)` on all pairs of `[q, 1]` and
/// `[k, 1]`; its `weight[0]` is `[[M, u], [v, b]]`.
///
/// ```
/// use attention_core::{Attention, Mask, Normalizer};
/// use attention_core::score::BiaffineScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let score = BiaffineScoreConfig::new(3, 5).init(&device);
/// // Each key by itself, not in comparison with the others: is there an arc?
/// let attention = Attention::new(score, 0.1).with_normalizer(Normalizer::Sigmoid);
/// let queries = Tensor::<3>::ones([1, 2, 3], &device);
/// let keys = Tensor::<3>::ones([1, 7, 5], &device);
/// let output = attention.forward_with_weights(queries, keys.clone(), keys, &Mask::none());
/// assert_eq!(output.weights.dims(), [1, 2, 7]);
/// ```
#[derive(Module, Debug)]
pub struct BiaffineScore {
    /// M, `[query_size, key_size]`, as in the formula (the transpose of the `weight` of a PyTorch `Linear`), and its
    /// bias v, `[key_size]`.
    pub query: Linear,
    /// u, `[query_size, 1]`, and its bias b, `[1]`.
    pub offset: Linear,
}

impl ScoringFunction for BiaffineScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        let offset = linear_of("queries", of_linear(&self.offset), queries.clone());
        let projected = linear_of("queries", of_linear(&self.query), queries);
        Tensor::cat(vec![projected, offset], 3)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        let [batch, heads, num_keys, _] = keys.dims();
        let one = Tensor::ones([batch, heads, num_keys, 1], (&keys.device(), keys.dtype()));
        Tensor::cat(vec![keys, one], 3)
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: Some(1.0) }
    }
}
