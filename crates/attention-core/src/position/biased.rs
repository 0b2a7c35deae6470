//! A score plus what positions alone say.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{DType, Device, Tensor};

use crate::{Mask, Memory, ScoringFunction};

/// What is added to a score for the positions of query and key, whatever they hold.
pub trait PositionBias: Module + ModuleDisplay + 'static {
    /// The bias of all pairs, with query `i` at position `i + num_keys - num_queries`; no number is 0.
    ///
    /// # Shapes
    /// - result `[1, heads or 1, num_queries, num_keys]`, on `device` and of type `dtype`
    fn bias(&self, num_queries: usize, num_keys: usize, device: &Device, dtype: DType)
    -> Tensor<4>;

    /// A bias per key that differs from [`bias`](Self::bias) by a constant per query and head, where there is one: softmax
    /// cannot tell the two apart, and a score of the dot family keeps its streaming kernel.
    ///
    /// # Shapes
    /// - result `[1, heads or 1, 1, num_keys]`, on `device` and of type `dtype`
    fn key_bias(&self, _num_keys: usize, _device: &Device, _dtype: DType) -> Option<Tensor<4>> {
        None
    }
}

/// `a(q_i, k_j) = score(q_i, k_j) + bias(i, j)`, for any scoring function and any bias of positions.
///
/// ```
/// use attention_core::{AlibiConfig, Attention, Biased, DotProductScoreConfig, Mask};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let score = Biased::new(DotProductScoreConfig::new().init(), AlibiConfig::new(8).init());
/// let attention = Attention::new(score, 0.0);
/// let rows = Tensor::<4>::ones([1, 8, 5, 16], &device);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
/// assert_eq!(context.dims(), [1, 8, 5, 16]);
/// ```
#[derive(Module, Debug)]
pub struct Biased<S: ScoringFunction, P: PositionBias> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// The bias, with its parameters.
    pub position: P,
}

impl<S: ScoringFunction, P: PositionBias> Biased<S, P> {
    /// `score` plus the bias `position`.
    pub fn new(score: S, position: P) -> Self {
        Self { score, position }
    }

    /// What softmax may be given for these queries: the bias per key where that is enough.
    fn softmax_bias(&self, queries: &Tensor<4>, memory: &Memory) -> Tensor<4> {
        let [_, heads, num_queries, _] = queries.dims();
        let num_keys = memory.num_keys();
        let (device, dtype) = (queries.device(), queries.dtype());
        let bias = match self.position.key_bias(num_keys, &device, dtype) {
            Some(bias) => bias,
            None => self.position.bias(num_queries, num_keys, &device, dtype),
        };
        check_heads(bias, heads)
    }
}

impl<S: ScoringFunction, P: PositionBias> ScoringFunction for Biased<S, P> {
    fn project_queries(&self, queries: Tensor<4>) -> Tensor<4> {
        self.score.project_queries(queries)
    }

    fn project_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        self.score.project_keys(keys)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let scores = self.score.score(queries, keys, mask);
        let [_, heads, num_queries, num_keys] = scores.dims();
        let (device, dtype) = (scores.device(), scores.dtype());
        let bias = self.position.bias(num_queries, num_keys, &device, dtype);
        scores + check_heads(bias, heads)
    }

    fn extend_keys(&self, keys: &Tensor<4>, mask: &Mask, num_queries: usize) -> Option<Tensor<4>> {
        self.score.extend_keys(keys, mask, num_queries)
    }

    fn attend(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
        let bias = self.softmax_bias(&queries, memory);
        self.score.attend_with_bias(queries, memory, dropout, bias)
    }

    fn attend_with_bias(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        dropout: f64,
        bias: Tensor<4>,
    ) -> Tensor<4> {
        let bias = bias + self.softmax_bias(&queries, memory);
        self.score.attend_with_bias(queries, memory, dropout, bias)
    }
}

fn check_heads(bias: Tensor<4>, heads: usize) -> Tensor<4> {
    let [_, found, ..] = bias.dims();
    assert!(
        found == 1 || found == heads,
        "Biased: a bias of {heads} heads expected for as many heads of scores, got one of {found}"
    );
    bias
}
