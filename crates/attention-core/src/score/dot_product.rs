//! Scaled dot-product score.

use burn::config::Config;
use burn::module::Module;

use super::{ScoreKernel, ScoringFunction};
use burn_fused_layers::harness::checks::assert_finite;

/// Configuration of [`DotProductScore`].
#[derive(Config, Debug)]
pub struct DotProductScoreConfig {
    /// The factor on the dot product; by default `1 / sqrt(query_size)`.
    #[config(default = "None")]
    pub scale: Option<f64>,
}

impl DotProductScoreConfig {
    /// The score; it has no parameters.
    ///
    /// # Panics
    /// If `scale` is not finite.
    pub fn init(&self) -> DotProductScore {
        if let Some(scale) = self.scale {
            assert_finite("DotProductScoreConfig", "scale", scale);
        }
        DotProductScore { scale: self.scale }
    }
}

/// `a(q, k) = q . k / sqrt(query_size)`, for queries and keys of one size.
///
/// The scale keeps the variance of the score at one for any size.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
#[derive(Module, Debug)]
pub struct DotProductScore {
    scale: Option<f64>,
}

impl ScoringFunction for DotProductScore {
    fn compares_as_given(&self) -> bool {
        true
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: self.scale }
    }
}
