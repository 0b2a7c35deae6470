//! A score plus what positions alone say.

use std::any::type_name;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::wide;

use crate::functional::along_diagonals;
use crate::mask::Mask;
use crate::position::Positions;
use crate::score::{PositionTerm, ScoreKernel, ScoringFunction, checked_heads, widened};

/// A bias on scores by the positions of query and key, whatever they hold.
pub trait PositionBias: Module + ModuleDisplay + 'static {
    /// The bias of all pairs, with query `i` at position `i + num_keys - num_queries`; neither number is 0. By default
    /// the bias of their distances.
    ///
    /// [`Biased`] asks for it in `f32` or `f64`: in half precision neighbouring positions would have the same bias.
    ///
    /// # Shapes
    /// - result `[1, heads or 1, num_queries, num_keys]`, on `device` and of type `dtype`
    fn bias(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> Tensor<4> {
        let of_distances = self.relative_bias(num_queries, num_keys, device, dtype);
        let of_distances = of_distances.unwrap_or_else(|| {
            panic!(
                "{}: expected a PositionBias with `bias` or `relative_bias`",
                type_name::<Self>()
            )
        });
        along_diagonals(of_distances, num_queries)
    }

    /// The bias of each distance, where it depends on that alone: element `j - i + num_queries - 1` is the
    /// [`bias`](Self::bias) of query `i` and key `j`. The fused kernels take it for many queries, too.
    ///
    /// # Shapes
    /// - result `[1, heads or 1, 1, num_queries + num_keys - 1]`, on `device` and of type `dtype`
    fn relative_bias(
        &self,
        _num_queries: usize,
        _num_keys: usize,
        _device: &Device,
        _dtype: DType,
    ) -> Option<Tensor<4>> {
        None
    }
}

/// `a(q_i, k_j) = score(q_i, k_j) + bias(i, j)`, for any scoring function and any bias of positions.
///
/// ```
/// use attention_core::{Attention, Mask};
/// use attention_core::position::{AlibiConfig, Biased};
/// use attention_core::score::DotProductScoreConfig;
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
        let dtype_of_bias = wide(dtype);
        let relative = || {
            self.position
                .relative_bias(num_queries, num_keys, device, dtype_of_bias)
        };
        let own = if num_queries == 1 {
            PositionTerm::PerKey(self.position.bias(1, num_keys, device, dtype_of_bias))
        } else {
            relative().map_or(PositionTerm::PerPair, PositionTerm::PerDistance)
        };
        let of_score = self
            .score
            .position_term(num_queries, num_keys, device, dtype);
        own.and(of_score)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        // Half precision cannot tell the biases of neighbouring positions apart.
        let scores = widened(self.score.score(queries, keys, mask));
        let [_, heads, num_queries, num_keys] = scores.dims();
        let (device, dtype) = (scores.device(), scores.dtype());
        let bias = self.position.bias(num_queries, num_keys, &device, dtype);
        scores + checked_heads(bias, heads)
    }
}
