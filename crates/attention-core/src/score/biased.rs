//! A score plus a bias of positions.

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::{wide, widened};

use super::{PositionTerm, ScoreKernel, ScoringFunction, checked_heads};
use crate::mask::Mask;
use crate::position::{PositionBias, Positions};

/// `a(q_i, k_j) = score(q_i, k_j) + bias(i, j)`, for any scoring function and any bias of positions.
///
/// ```
/// use attention_core::{Attention, Mask};
/// use attention_core::position::AlibiConfig;
/// use attention_core::score::{Biased, DotProductScoreConfig};
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
}

impl<S: ScoringFunction, P: PositionBias> ScoringFunction for Biased<S, P> {
    fn project_queries(&self, queries: Tensor<4>, positions: &Positions) -> Tensor<4> {
        self.score.project_queries(queries, positions)
    }

    fn project_keys(&self, keys: Tensor<4>, positions: &Positions) -> Tensor<4> {
        self.score.project_keys(keys, positions)
    }

    fn projects_keys(&self) -> bool {
        self.score.projects_keys()
    }

    fn compares_as_given(&self) -> bool {
        self.score.compares_as_given()
    }

    fn kernel(&self) -> ScoreKernel {
        self.score.kernel()
    }

    fn key_bias(&self, keys: &Tensor<4>) -> Option<Tensor<4>> {
        self.score.key_bias(keys)
    }

    fn position_term(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> PositionTerm {
        let (position, wide) = (&self.position, wide(dtype));
        let own = if num_queries == 1 {
            PositionTerm::PerKey(position.bias(1, num_keys, device, wide))
        } else {
            let bias = position.relative_bias(num_queries, num_keys, device, wide);
            bias.map_or(PositionTerm::PerPair, PositionTerm::PerDistance)
        };
        own.and((self.score).position_term(num_queries, num_keys, device, dtype))
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        // Half precision does not distinguish the biases of neighbouring positions.
        let scores = widened(self.score.score(queries, keys, mask));
        let [_, heads, num_queries, num_keys] = scores.dims();
        let (device, dtype) = (scores.device(), scores.dtype());
        let bias = self.position.bias(num_queries, num_keys, &device, dtype);
        scores + checked_heads(bias, heads)
    }
}
