//! The module and its configuration.

use burn::config::Config;
use burn::module::Module;
use burn::nn::attention::{self as burns, MhaOutput};
use burn::nn::{Dropout, DropoutConfig, Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::MhaInput;
use crate::attention::Attention;
use crate::score::{DotProductScore, DotProductScoreConfig};

/// Burn's `MultiHeadAttentionConfig`, field by field.
#[derive(Config, Debug)]
pub struct MultiHeadAttentionConfig {
    /// The feature dimension of inputs and of the context.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The probability to drop a weight while training.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Ignored: masked pairs have no score.
    #[config(default = -1.0e4)]
    pub min_float: f64,
    /// Whether the weights of a query may sum to less than 1: `exp(score) / (1 + sum exp(score))`.
    #[config(default = false)]
    pub quiet_softmax: bool,
    /// The distribution of new parameters.
    #[config(
        default = "Initializer::KaimingUniform { gain: 1.0 / f64::sqrt(3.0), fan_out_only: false }"
    )]
    pub initializer: Initializer,
    /// Whether the projection of keys has a bias.
    #[config(default = true)]
    pub key_bias: bool,
    /// Whether the projection of values has a bias.
    #[config(default = true)]
    pub value_bias: bool,
    /// Whether the projection of queries has a bias.
    #[config(default = true)]
    pub query_bias: bool,
    /// Whether the output projection has a bias.
    #[config(default = true)]
    pub output_bias: bool,
}

impl MultiHeadAttentionConfig {
    /// The module, with new random parameters on `device`.
    ///
    /// # Panics
    /// If `n_heads` does not divide `d_model`, a size is 0, or `dropout` is not in `[0, 1]`.
    pub fn init(&self, device: &Device) -> MultiHeadAttention {
        let linear = |bias| {
            LinearConfig::new(self.d_model, self.d_model)
                .with_initializer(self.initializer.clone())
                .with_bias(bias)
                .init(device)
        };
        MultiHeadAttention {
            query: linear(self.query_bias),
            key: linear(self.key_bias),
            value: linear(self.value_bias),
            output: linear(self.output_bias),
            dropout: DropoutConfig::new(self.dropout).init(),
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_k: head_size(self.d_model, self.n_heads),
            quiet_softmax: self.quiet_softmax,
        }
    }
}

/// Burn's `MultiHeadAttention`: scaled dot-product attention of `n_heads` heads, with Burn's results, record and
/// fields, but for deliberate [differences](crate::drop_in).
///
/// Queries, keys and values have the same feature dimension `d_model`, and so has the context.
/// [`attention_core::MultiHeadAttention`](crate::MultiHeadAttention) has more options; its `from` converts this module.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// W_q, `[d_model, d_model]`.
    pub query: Linear,
    /// W_k, `[d_model, d_model]`.
    pub key: Linear,
    /// W_v, `[d_model, d_model]`.
    pub value: Linear,
    /// W_o, `[d_model, d_model]`.
    pub output: Linear,
    /// Dropout on the weights, active while training.
    pub dropout: Dropout,
    /// The feature dimension of inputs and of the context.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The size of a query, key and value within a head, `d_model / n_heads`.
    pub d_k: usize,
    /// Whether the weights of a query may sum to less than 1.
    pub quiet_softmax: bool,
}

impl MultiHeadAttention {
    /// The context of each query, and its weights. The weights are a tensor of all pairs; [`context`](Self::context)
    /// makes none.
    ///
    /// # Panics
    /// If the shapes or the masks do not fit together.
    pub fn forward(&self, input: MhaInput) -> MhaOutput {
        let mask = input.all_masks();
        let heads = crate::MultiHeadAttention::from(self.clone());
        let output = heads.forward_with_weights(input.query, input.key, input.value, &mask);
        MhaOutput {
            weights: output.weights,
            context: output.context,
        }
    }

    /// The context of [`forward`](Self::forward) alone, in one fused kernel, which stores no weights.
    ///
    /// # Shapes
    /// - result `[batch, queries, d_model]`
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn context(&self, input: MhaInput) -> Tensor<3> {
        let mask = input.all_masks();
        let heads = crate::MultiHeadAttention::from(self.clone());
        heads.forward(input.query, input.key, input.value, &mask)
    }

    /// The attention of each head.
    pub(super) fn attention(&self) -> Attention<DotProductScore> {
        Attention {
            dropout: self.dropout.clone(),
            zero_key: self.quiet_softmax,
            ..Attention::new(DotProductScoreConfig::new().init(), 0.0)
        }
    }
}

/// Converts Burn's module, and shares its parameters.
///
/// # Panics
/// If `n_heads` does not divide `d_model`.
impl From<burns::MultiHeadAttention> for MultiHeadAttention {
    fn from(module: burns::MultiHeadAttention) -> Self {
        Self {
            query: module.query,
            key: module.key,
            value: module.value,
            output: module.output,
            dropout: module.dropout,
            d_model: module.d_model,
            n_heads: module.n_heads,
            d_k: head_size(module.d_model, module.n_heads),
            quiet_softmax: module.quiet_softmax,
        }
    }
}

/// Converts to the library's own module, with all that it can do.
impl From<MultiHeadAttention> for crate::multi_head_attention::MultiHeadAttention<DotProductScore> {
    fn from(module: MultiHeadAttention) -> Self {
        Self {
            attention: module.attention(),
            query: module.query,
            key: module.key,
            value: module.value,
            output: Some(module.output),
            num_heads: module.n_heads,
            num_key_value_heads: module.n_heads,
            packed: Vec::new(),
        }
    }
}

/// As the conversion from the drop-in module.
impl From<burns::MultiHeadAttention> for crate::MultiHeadAttention<DotProductScore> {
    fn from(module: burns::MultiHeadAttention) -> Self {
        MultiHeadAttention::from(module).into()
    }
}

fn head_size(d_model: usize, n_heads: usize) -> usize {
    crate::MultiHeadAttentionConfig::new(d_model, n_heads).head_size()
}
