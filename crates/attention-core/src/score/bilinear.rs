//! Bilinear score.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::{assert_finite, assert_positive};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear_of;

use super::{ScoreKernel, ScoringFunction};
use crate::position::Positions;

/// Configuration of [`BilinearScore`].
#[derive(Config, Debug)]
pub struct BilinearScoreConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// A factor on the score, which Luong et al. do not have.
    #[config(default = 1.0)]
    pub scale: f64,
}

impl BilinearScoreConfig {
    /// A score with a new random matrix on `device`.
    ///
    /// # Panics
    /// If a size is 0 or `scale` is not finite.
    pub fn init(&self, device: &Device) -> BilinearScore {
        const NAME: &str = "BilinearScoreConfig";
        let sizes = [("query_size", self.query_size), ("key_size", self.key_size)];
        assert_positive(NAME, &sizes);
        assert_finite(NAME, "scale", self.scale);
        let query = LinearConfig::new(self.query_size, self.key_size).with_bias(false);
        BilinearScore {
            query: query.init(device),
            scale: self.scale,
        }
    }
}

/// `a(q, k) = q^T M k`, for queries and keys of any two sizes: "general" attention.
///
/// Computed as a dot product of the queries times `M^T` with the unchanged keys.
///
/// Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1.
///
/// PyTorch equivalent: `torch.nn.Bilinear(query_size, key_size, 1, bias=False)` on all pairs; its `weight[0]` is `M`.
///
/// ```
/// use attention_core::{Attention, Mask};
/// use attention_core::score::BilinearScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = Attention::new(BilinearScoreConfig::new(3, 5).init(&device), 0.1);
/// let queries = Tensor::<3>::ones([1, 2, 3], &device);
/// let keys = Tensor::<3>::ones([1, 7, 5], &device);
/// let context = attention.forward(queries, keys.clone(), keys, &Mask::none());
/// assert_eq!(context.dims(), [1, 2, 5]);
/// ```
#[derive(Module, Debug)]
pub struct BilinearScore {
    /// M, `[query_size, key_size]`: Burn stores a linear layer as `[in, out]`, which is M as in the formula. (The
    /// `weight` of a PyTorch `Linear` from queries to keys is its transpose.)
    pub query: Linear,
    pub(crate) scale: f64,
}

impl ScoringFunction for BilinearScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        linear_of("queries", of_linear(&self.query), queries)
    }

    fn projects_keys(&self) -> bool {
        false
    }

    fn kernel(&self) -> ScoreKernel {
        let scale = Some(self.scale);
        ScoreKernel::Dot { scale }
    }
}
