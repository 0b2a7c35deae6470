//! The configuration of multi-head attention.

use burn::config::Config;
use burn::nn::{Initializer, LinearConfig};
use burn::tensor::Device;
use burn_fused_layers::harness::checks::assert_positive;

use super::MultiHeadAttention;
use crate::attention::{Attention, ExtraKeys};
use crate::score::{DotProductScore, DotProductScoreConfig, ScoringFunction};

/// Configuration of [`MultiHeadAttention`].
#[derive(Config, Debug)]
pub struct MultiHeadAttentionConfig {
    /// The number of hidden units of all heads together, in which queries and keys are compared.
    pub num_hiddens: usize,
    /// The number of heads.
    pub num_heads: usize,
    /// The number of heads of keys and values, each shared by `num_heads / num_key_value_heads` heads of queries; by
    /// default `num_heads`.
    #[config(default = "None")]
    pub num_key_value_heads: Option<usize>,
    /// The size of a query; by default `num_hiddens`.
    #[config(default = "None")]
    pub query_size: Option<usize>,
    /// The size of a key; by default `num_hiddens`.
    #[config(default = "None")]
    pub key_size: Option<usize>,
    /// The size of a value; by default `num_hiddens`.
    #[config(default = "None")]
    pub value_size: Option<usize>,
    /// The size of a value within a head, and of its context; by default the size of a query and key,
    /// [`head_size`](Self::head_size).
    #[config(default = "None")]
    pub value_head_size: Option<usize>,
    /// Whether an output projection mixes the heads' contexts; without one they are concatenated.
    #[config(default = true)]
    pub output: bool,
    /// The size of the context, where there is an output projection; by default `num_hiddens`.
    #[config(default = "None")]
    pub output_size: Option<usize>,
    /// Whether the linear layers have a bias. D2L's have none by default, PyTorch's and Burn's do.
    #[config(default = false)]
    pub bias: bool,
    /// Whether the projection of queries has a bias; `None`, here and below, follows `bias`.
    #[config(default = "None")]
    pub query_bias: Option<bool>,
    /// Whether the projection of keys has a bias.
    #[config(default = "None")]
    pub key_bias: Option<bool>,
    /// Whether the projection of values has a bias.
    #[config(default = "None")]
    pub value_bias: Option<bool>,
    /// Whether the output projection has a bias.
    #[config(default = "None")]
    pub output_bias: Option<bool>,
    /// The distribution of new weights of the projections.
    #[config(
        default = "Initializer::KaimingUniform { gain: 1.0 / 3f64.sqrt(), fan_out_only: false }"
    )]
    pub initializer: Initializer,
    /// The soft-cap of the scores; see [`AttentionOptions::soft_cap`](crate::functional::AttentionOptions::soft_cap).
    #[config(default = "None")]
    pub soft_cap: Option<f64>,
    /// Whether each head has a learned sink; see
    /// [`AttentionOptions::sinks`](crate::functional::AttentionOptions::sinks).
    #[config(default = false)]
    pub sinks: bool,
    /// The number of learned keys with values that every query attends to, in each head; PyTorch's `add_bias_kv` has 1.
    #[config(default = 0)]
    pub num_extra_keys: usize,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl MultiHeadAttentionConfig {
    /// Heads of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size or a number is 0, `num_heads` does not divide `num_hiddens`, `num_key_value_heads` does not divide
    /// `num_heads`, an `output_size` is given without an output projection, `soft_cap` is no finite number above 0, or
    /// `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> MultiHeadAttention<DotProductScore> {
        self.init_with(DotProductScoreConfig::new().init(), device)
    }

    /// Heads around `score`, which compares queries and keys of [`head_size`](Self::head_size); all heads share its
    /// parameters. `score` should be on the same device.
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<S: ScoringFunction>(
        &self,
        score: S,
        device: &Device,
    ) -> MultiHeadAttention<S> {
        let hiddens = self.num_hiddens;
        let size = |size: Option<usize>| size.unwrap_or(hiddens);
        let num_key_value_heads = self.num_key_value_heads.unwrap_or(self.num_heads);
        let sizes = [
            ("num_hiddens", hiddens),
            ("num_heads", self.num_heads),
            ("num_key_value_heads", num_key_value_heads),
            ("query_size", size(self.query_size)),
            ("key_size", size(self.key_size)),
            ("value_size", size(self.value_size)),
            ("value_head_size", self.value_head_size.unwrap_or(1)),
            ("output_size", size(self.output_size)),
        ];
        assert_positive("MultiHeadAttentionConfig", &sizes);
        assert!(
            self.num_heads.is_multiple_of(num_key_value_heads),
            "MultiHeadAttentionConfig: num_key_value_heads expected to divide num_heads {}, got {num_key_value_heads}",
            self.num_heads
        );
        assert!(
            self.output || self.output_size.is_none(),
            "MultiHeadAttentionConfig: output_size expected only with an output projection, got {:?} without one",
            self.output_size
        );
        let head_size = self.head_size();
        let value_head_size = self.value_head_size.unwrap_or(head_size);
        let keys = head_size * num_key_value_heads;
        let values = value_head_size * num_key_value_heads;
        let (contexts, output_size) = (value_head_size * self.num_heads, size(self.output_size));
        let linear = |from, to, bias: Option<bool>| {
            LinearConfig::new(from, to)
                .with_bias(bias.unwrap_or(self.bias))
                .with_initializer(self.initializer.clone())
                .init(device)
        };
        let output = || linear(contexts, output_size, self.output_bias);
        let mut attention = Attention::new(score, self.dropout);
        if let Some(soft_cap) = self.soft_cap {
            attention = attention.with_soft_cap(soft_cap);
        }
        if self.sinks {
            attention = attention.with_sinks(self.num_heads, device);
        }
        if self.num_extra_keys > 0 {
            let (number, sizes) = (self.num_extra_keys, [head_size, value_head_size]);
            let extra_keys = ExtraKeys::new(num_key_value_heads, number, sizes, device);
            attention = attention.with_extra_keys(extra_keys);
        }
        MultiHeadAttention {
            query: linear(size(self.query_size), hiddens, self.query_bias),
            key: linear(size(self.key_size), keys, self.key_bias),
            value: linear(size(self.value_size), values, self.value_bias),
            output: self.output.then(output),
            attention,
            num_heads: self.num_heads,
            num_key_value_heads,
            packed: Vec::new(),
        }
    }

    /// The size of a query and key within a head, `num_hiddens / num_heads`.
    ///
    /// # Panics
    /// If `num_heads` does not divide `num_hiddens`.
    pub fn head_size(&self) -> usize {
        let (hiddens, heads) = (self.num_hiddens, self.num_heads);
        assert!(
            heads > 0 && hiddens.is_multiple_of(heads),
            "MultiHeadAttentionConfig: num_heads expected to divide num_hiddens {hiddens}, got {heads}"
        );
        hiddens / heads
    }
}
