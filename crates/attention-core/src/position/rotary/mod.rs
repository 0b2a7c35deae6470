//! Rotary position embedding.

mod config;
mod scaling;
mod tables;

pub use config::RotaryConfig;
pub use scaling::{Llama3ScalingConfig, RotaryScaling, YarnScalingConfig};

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::wide;

use tables::Tables;

use crate::functional;
use crate::mask::Mask;
use crate::ops::RotaryLayout;
use crate::position::Positions;
use crate::score::{PositionTerm, ScoreKernel, ScoringFunction};

/// `a(q_i, k_j) = score(R(position_i) q_i, R(position_j) k_j)`, where `R(p)` rotates each pair `n` of the features of a
/// row by the angle `p theta^(-2 n / size)`: a dot product then depends on positions only by their distance. Values are
/// not rotated.
///
/// [`RotaryConfig`] says which features form pairs, how many are rotated, and how the angles are scaled for contexts
/// longer than in training.
///
/// The last query stands at the position of the last key, as in [`Mask::causal`]; this includes the only query of a
/// decoding step. There may therefore be no more queries than keys.
///
/// Sines and cosines are computed in f64 and kept in f32 for any type of the model (in f64 where that is the device's
/// float type); half precision is rotated in f32. In half precision neighbouring positions would have the same angles
/// (in bf16 from 257, in f16 from 2,049 on).
///
/// # Normalization and rotation
///
/// A score that projects its rows does so after the rotation: `Rotary<QkNormScore>` rotates rows, then normalizes them.
/// [`after_projection`](RotaryConfig::after_projection) rotates the rows that the score has projected, as Qwen 3, Gemma
/// 3 and OLMo 2 rotate normalized rows. The two differ only by the gains of the normalization, one for each feature.
///
/// Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2. Burn equivalent:
/// `RotaryEncoding`, which computes angles in the float type of the device.
///
/// ```
/// use attention_core::{Attention, Mask};
/// use attention_core::position::{RotaryConfig, RotaryLayout};
/// use attention_core::score::QkNormScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// // Queries and keys of 16 features at up to 64 positions, turned as in Qwen 3.
/// let config = RotaryConfig::new(16, 64)
///     .with_theta(1e6)
///     .with_layout(RotaryLayout::HalfSplit)
///     .with_after_projection(true);
/// let score = config.init_with(QkNormScoreConfig::new(16).init(&device), &device);
/// let attention = Attention::new(score, 0.0);
/// let rows = Tensor::<3>::ones([1, 5, 16], &device);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
/// assert_eq!(context.dims(), [1, 5, 16]);
/// ```
#[derive(Module, Debug)]
pub struct Rotary<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    #[module(skip)]
    tables: Tables,
    size: usize,
    #[module(skip)]
    layout: RotaryLayout,
    after_projection: bool,
}

impl<S: ScoringFunction> Rotary<S> {
    /// The same rotation for another score, sharing the tables of angles, for example among the layers of a model for
    /// long contexts.
    pub fn with_score<T: ScoringFunction>(&self, score: T) -> Rotary<T> {
        Rotary {
            score,
            tables: self.tables.clone(),
            size: self.size,
            layout: self.layout,
            after_projection: self.after_projection,
        }
    }

    /// Rows at `positions`, projected by `project`, and rotated before or after it.
    fn turned_around(
        &self,
        rows: Tensor<4>,
        positions: &Positions,
        project: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<4> {
        if self.after_projection {
            self.turn(project(rows), positions)
        } else {
            project(self.turn(rows, positions))
        }
    }

    fn turn(&self, rows: Tensor<4>, positions: &Positions) -> Tensor<4> {
        let [batch, _, num_rows, size] = rows.dims();
        assert!(
            size == self.size,
            "Rotary: rows of {} features expected, as RotaryConfig says, got {size}",
            self.size
        );
        let (device, dtype) = (rows.device(), wide(rows.dtype()));
        let tables = (self.tables).select(positions, [batch, num_rows], &device);
        let [cosines, sines] = tables.map(|table| table.cast(dtype));
        functional::rotate(rows, cosines, sines, self.layout)
    }
}

impl<S: ScoringFunction> ScoringFunction for Rotary<S> {
    fn project_queries(&self, queries: Tensor<4>, positions: &Positions) -> Tensor<4> {
        self.turned_around(queries, positions, |queries| {
            self.score.project_queries(queries, positions)
        })
    }

    fn project_keys(&self, keys: Tensor<4>, positions: &Positions) -> Tensor<4> {
        self.turned_around(keys, positions, |keys| {
            self.score.project_keys(keys, positions)
        })
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
        (self.score).position_term(num_queries, num_keys, device, dtype)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        self.score.score(queries, keys, mask)
    }
}
