//! Configurations of the two attentions that have a name of their own.

use burn::config::Config;
use burn::tensor::Device;

use super::{AdditiveAttention, Attention, DotProductAttention};
use crate::score::{AdditiveScoreConfig, DotProductScoreConfig};

/// Configuration of [`AdditiveAttention`].
#[derive(Config, Debug)]
pub struct AdditiveAttentionConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which queries and keys are compared.
    pub num_hiddens: usize,
    /// Whether the hidden units have a bias; see [`AdditiveScore`](crate::AdditiveScore).
    #[config(default = false)]
    pub bias: bool,
    /// Whether w_v is normalised, with a bias; see [`AdditiveScore`](crate::AdditiveScore).
    #[config(default = false)]
    pub normalize: bool,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl AdditiveAttentionConfig {
    /// Attention with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0 or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> AdditiveAttention {
        let score = AdditiveScoreConfig::new(self.query_size, self.key_size, self.num_hiddens)
            .with_bias(self.bias)
            .with_normalize(self.normalize);
        Attention::new(score.init(device), self.dropout)
    }
}

/// Configuration of [`DotProductAttention`].
#[derive(Config, Debug)]
pub struct DotProductAttentionConfig {
    /// The factor on the dot product; by default `1 / sqrt(query_size)`.
    #[config(default = "None")]
    pub scale: Option<f64>,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl DotProductAttentionConfig {
    /// Attention; it has no parameters, and runs on the device of its inputs.
    ///
    /// # Panics
    /// If `scale` is not finite or `dropout` is not in `[0, 1)`.
    pub fn init(&self) -> DotProductAttention {
        let score = DotProductScoreConfig::new().with_scale(self.scale);
        Attention::new(score.init(), self.dropout)
    }
}
