//! Dot product of projected queries and keys.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::assert_finite;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear_of;

use super::{ScoreKernel, ScoringFunction, assert_sizes};
use crate::position::Positions;

/// Configuration of [`ProjectedScore`].
#[derive(Config, Debug)]
pub struct ProjectedScoreConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The size to which queries and keys are projected.
    pub num_hiddens: usize,
    /// Whether both projections go through tanh.
    #[config(default = false)]
    pub tanh: bool,
    /// The factor on the products; `1 / sqrt(num_hiddens)` if `None`.
    #[config(default = "None")]
    pub scale: Option<f64>,
}

impl ProjectedScoreConfig {
    /// A score with new random projections on `device`.
    ///
    /// # Panics
    /// If a size is 0 or `scale` is not finite.
    pub fn init(&self, device: &Device) -> ProjectedScore {
        const NAME: &str = "ProjectedScoreConfig";
        let sizes = [self.query_size, self.key_size, self.num_hiddens];
        assert_sizes(NAME, sizes);
        if let Some(scale) = self.scale {
            assert_finite(NAME, "scale", scale);
        }
        let linear = |from| LinearConfig::new(from, self.num_hiddens).with_bias(false);
        ProjectedScore {
            query: linear(self.query_size).init(device),
            key: linear(self.key_size).init(device),
            tanh: self.tanh,
            scale: self.scale,
        }
    }
}

/// `a(q, k) = (W_q q) . (W_k k) / sqrt(num_hiddens)`, for queries and keys of any two sizes: the score of a
/// Transformer's head, and a [`BilinearScore`](crate::score::BilinearScore) whose matrix has rank `num_hiddens` at
/// most.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2. With [`tanh`](ProjectedScoreConfig::tanh) it is
/// `tanh(W_q q) . tanh(W_k k)`, the `AttDot` of ESPnet.
///
/// PyTorch equivalent: `W_q(q) @ W_k(k).mT / num_hiddens ** 0.5`.
///
/// ```
/// use attention_core::{Attention, Mask};
/// use attention_core::score::ProjectedScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = Attention::new(ProjectedScoreConfig::new(3, 5, 8).init(&device), 0.1);
/// let queries = Tensor::<3>::ones([1, 2, 3], &device);
/// let keys = Tensor::<3>::ones([1, 7, 5], &device);
/// let context = attention.forward(queries, keys.clone(), keys, &Mask::none());
/// assert_eq!(context.dims(), [1, 2, 5]);
/// ```
#[derive(Module, Debug)]
pub struct ProjectedScore {
    /// W_q, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// W_k, `[key_size, num_hiddens]`.
    pub key: Linear,
    pub(crate) tanh: bool,
    pub(crate) scale: Option<f64>,
}

impl ScoringFunction for ProjectedScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.activated(linear_of("queries", of_linear(&self.query), queries))
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.activated(linear_of("keys", of_linear(&self.key), keys))
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: self.scale }
    }
}

impl ProjectedScore {
    fn activated(&self, projected: Tensor<4>) -> Tensor<4> {
        if self.tanh {
            projected.tanh()
        } else {
            projected
        }
    }
}
