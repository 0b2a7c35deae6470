//! Causal language models.

use attention_core::functional::AttentionOptions;
use attention_core::padding::{Padding, last_tokens};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, Mask, NewRows, ScoringFunction};
use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::linear;

use crate::cache::TransformerCache;
use crate::embedding::{TokenEmbedding, TokenEmbeddingConfig};
use crate::encoder::{TransformerEncoder, TransformerEncoderConfig};
use crate::generate::CausalModel;
use crate::position_embedding::PositionLimit;

/// Configuration of [`LanguageModel`].
#[derive(Config, Debug)]
pub struct LanguageModelConfig {
    /// The configuration of the embedding, whose size is `num_hiddens` of the stack.
    pub embedding: TokenEmbeddingConfig,
    /// The configuration of the stack.
    pub stack: TransformerEncoderConfig,
    /// Whether the head also uses the embedding of the tokens as its weight: Press & Wolf 2017, "Using the Output
    /// Embedding to Improve Language Models".
    #[config(default = true)]
    pub tied: bool,
    /// Whether an untied head has a bias.
    #[config(default = false)]
    pub head_bias: bool,
    /// `cap` of `cap tanh(logit / cap)`, which limits logits: Gemma Team 2024, "Gemma 2: Improving Open Language Models
    /// at a Practical Size", section 2. By default logits are not limited.
    #[config(default = "None")]
    pub logit_soft_cap: Option<f64>,
}

impl LanguageModelConfig {
    /// A model of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If the size of the embedding differs from that of the rows, a tied head is to have a bias, `logit_soft_cap` is
    /// not a positive number, and as [`TokenEmbeddingConfig::init`] and [`TransformerEncoderConfig::init`].
    pub fn init(&self, device: &Device) -> LanguageModel<DotProductScore> {
        self.init_with(|_| DotProductScoreConfig::new().init(), device)
    }

    /// A model with the scores that `score` makes from the index of each layer, as in
    /// [`TransformerEncoderConfig::init_with`].
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<S: ScoringFunction>(
        &self,
        score: impl FnMut(usize) -> S,
        device: &Device,
    ) -> LanguageModel<S> {
        const NAME: &str = "LanguageModelConfig";
        let (expected, size) = (self.stack.layer.num_hiddens, self.embedding.size);
        assert!(
            size == expected,
            "{NAME}: embedding of size {expected} expected, as the num_hiddens of the layers, got {size}"
        );
        assert!(
            !(self.tied && self.head_bias),
            "{NAME}: head_bias expected with a head of its own (`tied` false), got it with a tied one"
        );
        if let Some(cap) = self.logit_soft_cap {
            assert!(
                cap.is_finite() && cap > 0.0,
                "{NAME}: logit_soft_cap expected a finite number above 0, got {cap}"
            );
        }
        let head = || {
            let config = LinearConfig::new(size, self.embedding.vocab_size);
            config.with_bias(self.head_bias).init(device)
        };
        LanguageModel {
            embedding: self.embedding.init(device),
            stack: self.stack.init_with(score, device),
            head: (!self.tied).then(head),
            logit_soft_cap: self.logit_soft_cap,
        }
    }
}

/// A model that predicts the next token: the embedding of tokens and positions, a stack of layers whose rows attend to
/// the rows up to themselves, and a head. GPT and Llama are such models.
///
/// Padding reaches nothing, whatever it holds: it need not be a valid token.
///
/// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.
///
/// ```
/// use attention_transformers::layer::NormConfig;
/// use attention_transformers::{
///     FeedForwardActivation, GenerateConfig, LanguageModelConfig, TokenEmbeddingConfig,
///     TransformerEncoderConfig, TransformerLayerConfig,
/// };
/// use attention_core::NewRows;
/// use attention_core::position::RotaryConfig;
/// use attention_core::score::DotProductScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// // A small Llama: heads of 4 features, positions by rotation, RMS norms, SwiGLU, no biases.
/// let layer = TransformerLayerConfig::new(16, 4, 21)
///     .with_num_key_value_heads(Some(2))
///     .with_norm(NormConfig::rms())
///     .with_activation(FeedForwardActivation::SwiGlu)
///     .with_attention_bias(false)
///     .with_feed_forward_bias(false);
/// let stack = TransformerEncoderConfig::new(layer, 2);
/// let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(31, 16), stack);
/// let score = |_| RotaryConfig::new(4, 64).init_with(DotProductScoreConfig::new().init(), &device);
/// let model = config.init_with(score, &device);
/// // Logits of the token that follows each.
/// let tokens = Tensor::<2, Int>::from_ints([[3, 1, 4, 1], [5, 9, 0, 0]], &device);
/// let logits = model.forward(tokens, NewRows::First(&[4, 2]));
/// assert_eq!(logits.dims(), [2, 4, 31]);
/// // Three more tokens.
/// let rows = GenerateConfig::new(3).generate(&model, model.cache(), &[[3, 1, 4, 1]]).run();
/// assert_eq!(rows[0].tokens.len(), 3);
/// ```
#[derive(Module, Debug)]
pub struct LanguageModel<S: ScoringFunction> {
    /// The embedding of tokens and positions.
    pub embedding: TokenEmbedding,
    /// The layers.
    pub stack: TransformerEncoder<S>,
    /// The linear layer from rows to logits, `[num_hiddens, vocab_size]`, if it is not the embedding of the tokens.
    pub head: Option<Linear>,
    /// `cap` of `cap tanh(logit / cap)`.
    pub logit_soft_cap: Option<f64>,
}

impl<S: ScoringFunction> LanguageModel<S> {
    /// The logits of the token after each of `tokens`, for all positions at once, as in training; `rows` tells tokens
    /// from padding.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, vocab_size]`
    ///
    /// # Panics
    /// If a token does not exist, a text is longer than the model's positions, or `rows` do not fit.
    pub fn forward(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<3> {
        self.logits(self.features(tokens, rows))
    }

    /// The rows from which the head computes [logits](Self::forward), for a loss that does not need all logits at once:
    /// `burn_fused_layers::linear_cross_entropy`, unless there is a soft-cap.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn features(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<3> {
        let embedded = self.embedding.of_texts(tokens, None, rows, None);
        let [batch, num_rows, _] = embedded.dims();
        let padding = Padding::of_new(rows, &embedded);
        let mask = match rows {
            _ if batch * num_rows == 0 => return embedded,
            NewRows::All => Mask::causal(),
            _ => {
                let tokens = rows.ranges([batch, num_rows]);
                let of_example = tokens.iter().map(|of| {
                    let bounds = (0..num_rows).map(|row| match of.contains(&row) {
                        true => [of.start, row + 1],
                        false => [0, 0],
                    });
                    bounds.collect::<Vec<_>>()
                });
                Mask::intervals(&of_example.collect::<Vec<_>>())
            }
        };
        let options = AttentionOptions::from(&mask);
        self.stack.forward_padded(embedded, &padding, options)
    }

    /// An empty cache for [`forward_cached`](Self::forward_cached).
    pub fn cache(&self) -> TransformerCache {
        self.stack.cache()
    }

    /// The logits of the token after each of the last `tokens` of texts. `cache` has the keys and values so far; those
    /// of the new `rows` are appended.
    ///
    /// For generation, without autodiff.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, vocab_size]`
    ///
    /// # Panics
    /// As [`forward`](Self::forward) and [`TransformerEncoder::forward_cached`].
    pub fn forward_cached(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        cache: &mut TransformerCache,
    ) -> Tensor<3> {
        self.logits(self.features_cached(tokens, rows, cache))
    }

    fn features_cached(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        cache: &mut TransformerCache,
    ) -> Tensor<3> {
        cache.check("LanguageModel", self.stack.layers.len());
        // All layers have the same tokens.
        let seen = cache.layers.first();
        let embedded = self.embedding.of_texts(tokens, None, rows, seen);
        self.stack.forward_cached(embedded, rows, cache)
    }

    /// The logits from rows `[batch, rows, num_hiddens]`.
    fn logits(&self, rows: Tensor<3>) -> Tensor<3> {
        let (weight, bias) = self.embedding.head(self.head.as_ref());
        let logits = linear(rows, weight, bias);
        match self.logit_soft_cap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        }
    }
}

impl<S: ScoringFunction> CausalModel for LanguageModel<S> {
    type State = TransformerCache;

    fn device(&self) -> Device {
        self.embedding.tokens.weight.device()
    }

    fn next_logits(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        cache: &mut TransformerCache,
    ) -> Tensor<2> {
        let [batch, num_rows] = tokens.dims();
        assert!(
            num_rows > 0,
            "LanguageModel: at least one row of tokens expected, got none"
        );
        let features = self.features_cached(tokens, rows, cache);
        // The head is applied to the last rows only, as it is the largest layer.
        let last = last_tokens(features, rows, [batch, num_rows]);
        self.logits(last.unsqueeze()).squeeze_dim(0)
    }

    fn position_limit(&self) -> Option<PositionLimit> {
        self.embedding.position_limit()
    }

    fn lengths(&self, cache: &TransformerCache) -> Vec<usize> {
        cache.lengths()
    }
}
