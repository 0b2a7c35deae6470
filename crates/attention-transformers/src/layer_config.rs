//! Configuration of the layers of Transformers.

use attention_core::score::DotProductScoreConfig;
use attention_core::{
    DotProductScore, MultiHeadAttention, MultiHeadAttentionConfig, ScoringFunction,
};
use burn::config::Config;
use burn::nn::DropoutConfig;
use burn::tensor::Device;
use burn_fused_layers::harness::checks::assert_positive;

use crate::decoder_layer::TransformerDecoderLayer;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::feed_forward::{FeedForward, FeedForwardActivation, FeedForwardConfig};
use crate::norm::NormConfig;
use crate::residual::{NormOrder, Residual};

const NAME: &str = "TransformerLayerConfig";

/// Configuration of [`TransformerEncoderLayer`] and [`TransformerDecoderLayer`].
#[derive(Config, Debug)]
pub struct TransformerLayerConfig {
    /// The size of a row. PyTorch's `d_model`.
    pub num_hiddens: usize,
    /// The number of heads.
    pub num_heads: usize,
    /// The number of hidden units of the feed-forward network. PyTorch's `dim_feedforward`.
    pub feed_forward_size: usize,
    /// The number of heads of keys and values, a divisor of `num_heads`; by default `num_heads`.
    #[config(default = "None")]
    pub num_key_value_heads: Option<usize>,
    /// The size of a head; by default `num_hiddens / num_heads`.
    #[config(default = "None")]
    pub head_size: Option<usize>,
    /// The size of a row of the memory that a decoder layer attends to; by default `num_hiddens`.
    #[config(default = "None")]
    pub memory_size: Option<usize>,
    /// The number of rows, including its own as the last, that a row attends to; by default it attends to all that the
    /// mask keeps.
    #[config(default = "None")]
    pub window: Option<usize>,
    /// The soft-cap of attention's scores, by default none.
    #[config(default = "None")]
    pub soft_cap: Option<f64>,
    /// Whether each head has a learned sink.
    #[config(default = false)]
    pub sinks: bool,
    /// Whether the linear layers of attention have a bias.
    #[config(default = true)]
    pub attention_bias: bool,
    /// Whether the linear layers of the feed-forward network have a bias.
    #[config(default = true)]
    pub feed_forward_bias: bool,
    /// The activation of the feed-forward network.
    #[config(default = "FeedForwardActivation::Relu")]
    pub activation: FeedForwardActivation,
    /// The normalizations.
    #[config(default = "NormConfig::layer()")]
    pub norm: NormConfig,
    /// The place of the normalizations.
    #[config(default = "NormOrder::Pre")]
    pub norm_order: NormOrder,
    /// The probability to drop, while training, an element of a sublayer's output.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// The probability to drop an attention weight.
    #[config(default = 0.0)]
    pub attention_dropout: f64,
    /// The probability to drop a hidden unit of the feed-forward network.
    #[config(default = 0.0)]
    pub feed_forward_dropout: f64,
}

impl TransformerLayerConfig {
    /// An encoder layer of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size or a number is 0, `num_heads` does not divide `num_hiddens` and there is no `head_size`,
    /// `num_key_value_heads` does not divide `num_heads`, an epsilon or the soft-cap is not positive, or a probability
    /// is not in `[0, 1)`.
    pub fn init_encoder(&self, device: &Device) -> TransformerEncoderLayer<DotProductScore> {
        self.init_encoder_with(DotProductScoreConfig::new().init(), device)
    }

    /// An encoder layer around `score`, which compares queries and keys of one head and should be on the same device.
    ///
    /// # Panics
    /// As [`init_encoder`](Self::init_encoder).
    pub fn init_encoder_with<S: ScoringFunction>(
        &self,
        score: S,
        device: &Device,
    ) -> TransformerEncoderLayer<S> {
        TransformerEncoderLayer {
            attention: self.attention(self.num_hiddens, score, device),
            attention_residual: self.residual(device),
            feed_forward: self.feed_forward(device),
            feed_forward_residual: self.residual(device),
            window: self.checked_window(),
        }
    }

    /// A decoder layer of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// As [`init_encoder`](Self::init_encoder).
    pub fn init_decoder(
        &self,
        device: &Device,
    ) -> TransformerDecoderLayer<DotProductScore, DotProductScore> {
        let score = || DotProductScoreConfig::new().init();
        self.init_decoder_with(score(), score(), device)
    }

    /// A decoder layer around `score` and, for the attention to the memory, `cross_score`. Only the first needs to
    /// handle positions: the memory already has its own.
    ///
    /// # Panics
    /// As [`init_encoder`](Self::init_encoder).
    pub fn init_decoder_with<S: ScoringFunction, C: ScoringFunction>(
        &self,
        score: S,
        cross_score: C,
        device: &Device,
    ) -> TransformerDecoderLayer<S, C> {
        let memory_size = self.memory_size.unwrap_or(self.num_hiddens);
        TransformerDecoderLayer {
            attention: self.attention(self.num_hiddens, score, device),
            attention_residual: self.residual(device),
            cross_attention: self.attention(memory_size, cross_score, device),
            cross_attention_residual: self.residual(device),
            feed_forward: self.feed_forward(device),
            feed_forward_residual: self.residual(device),
            window: self.checked_window(),
        }
    }

    /// Heads whose keys and values have the size `key_size`.
    fn attention<S: ScoringFunction>(
        &self,
        key_size: usize,
        score: S,
        device: &Device,
    ) -> MultiHeadAttention<S> {
        let size = self.num_hiddens;
        let of_heads = match self.head_size {
            Some(head_size) => {
                let sizes = [("num_heads", self.num_heads), ("head_size", head_size)];
                assert_positive(NAME, &sizes);
                head_size * self.num_heads
            }
            None => size,
        };
        MultiHeadAttentionConfig::new(of_heads, self.num_heads)
            .with_num_key_value_heads(self.num_key_value_heads)
            .with_query_size(Some(size))
            .with_key_size(Some(key_size))
            .with_value_size(Some(key_size))
            .with_output_size(Some(size))
            .with_bias(self.attention_bias)
            .with_soft_cap(self.soft_cap)
            .with_sinks(self.sinks)
            .with_dropout(self.attention_dropout)
            .init_with(score, device)
    }

    fn feed_forward(&self, device: &Device) -> FeedForward {
        FeedForwardConfig::new(self.num_hiddens, self.feed_forward_size)
            .with_activation(self.activation)
            .with_bias(self.feed_forward_bias)
            .with_dropout(self.feed_forward_dropout)
            .init(device)
    }

    fn residual(&self, device: &Device) -> Residual {
        let norm = || self.norm.init(self.num_hiddens, device);
        Residual {
            norm: norm(),
            output_norm: (self.norm_order == NormOrder::Sandwich).then(norm),
            dropout: DropoutConfig::new(self.dropout).init(),
            order: self.norm_order,
        }
    }

    fn checked_window(&self) -> Option<usize> {
        assert!(
            self.window != Some(0),
            "{NAME}: window expected at least 1, the row itself, got 0"
        );
        self.window
    }
}
