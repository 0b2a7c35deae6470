//! Masked language models.

use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, Mask, NewRows, ScoringFunction};
use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::parameter::{of_linear, value};
use burn_fused_layers::{activate, linear};

use crate::embedding::{TokenEmbedding, TokenEmbeddingConfig};
use crate::encoder::{TransformerEncoder, TransformerEncoderConfig};
use crate::feed_forward::FeedForwardActivation;
use crate::norm::Norm;
use crate::text_encoder::features;

const NAME: &str = "MaskedLanguageModelConfig";

/// Configuration of [`MaskedLanguageModel`].
#[derive(Config, Debug)]
pub struct MaskedLanguageModelConfig {
    /// The configuration of the embedding, whose size is `num_hiddens` of the stack.
    pub embedding: TokenEmbeddingConfig,
    /// The configuration of the stack. The head has the same kind of normalization as its layers.
    pub stack: TransformerEncoderConfig,
    /// The activation of the head, which is not gated.
    #[config(default = "FeedForwardActivation::Gelu")]
    pub head_activation: FeedForwardActivation,
    /// Whether the embedding of the tokens is also the weight from features to logits: Press & Wolf 2017, "Using the
    /// Output Embedding to Improve Language Models".
    #[config(default = true)]
    pub tied: bool,
}

impl MaskedLanguageModelConfig {
    /// A model of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If the size of the embedding differs from that of the rows, the activation of the head is gated, and as
    /// [`TokenEmbeddingConfig::init`] and [`TransformerEncoderConfig::init`].
    pub fn init(&self, device: &Device) -> MaskedLanguageModel<DotProductScore> {
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
    ) -> MaskedLanguageModel<S> {
        let (expected, size) = (self.stack.layer.num_hiddens, self.embedding.size);
        assert!(
            size == expected,
            "{NAME}: embedding of size {expected} expected, as the num_hiddens of the layers, got {size}"
        );
        assert!(
            !self.head_activation.is_gated(),
            "{NAME}: head_activation expected without a gate, got {:?}",
            self.head_activation
        );
        let vocab_size = self.embedding.vocab_size;
        let output = || LinearConfig::new(size, vocab_size).with_bias(false);
        let head = MaskedLanguageModelHead {
            transform: LinearConfig::new(size, size).init(device),
            norm: self.stack.layer.norm.init(size, device),
            output: (!self.tied).then(|| output().init(device)),
            bias: Initializer::Zeros.init([vocab_size], device),
            activation: self.head_activation,
        };
        MaskedLanguageModel {
            embedding: self.embedding.init(device),
            stack: self.stack.init_with(score, device),
            head,
        }
    }
}

/// A model that predicts the tokens of a text in place, some of which are replaced by a mask token: the embedding of
/// tokens, positions and types, a stack of layers whose rows attend to all rows, and a head. BERT is such a model.
///
/// Padding reaches nothing, whatever it holds: it need not be a valid token.
///
/// Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", section 3.
///
/// ```
/// use attention_core::NewRows;
/// use attention_transformers::layer::NormConfig;
/// use attention_transformers::{
///     FeedForwardActivation, MaskedLanguageModelConfig, NormOrder, PositionEmbeddingConfig,
///     TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
/// };
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// // A small BERT.
/// let norm = NormConfig::Layer { epsilon: 1e-12, bias: true };
/// let layer = TransformerLayerConfig::new(16, 4, 21)
///     .with_norm(norm.clone())
///     .with_norm_order(NormOrder::Post)
///     .with_activation(FeedForwardActivation::Gelu)
///     .with_dropout(0.1);
/// let embedding = TokenEmbeddingConfig::new(31, 16)
///     .with_positions(PositionEmbeddingConfig::Learned { max_positions: 64 })
///     .with_num_types(Some(2))
///     .with_norm(Some(norm))
///     .with_dropout(0.1);
/// let stack = TransformerEncoderConfig::new(layer, 2);
/// let model = MaskedLanguageModelConfig::new(embedding, stack).init(&device);
/// // Two pairs of sentences; the second is shorter.
/// let tokens = Tensor::<2, Int>::from_ints([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], &device);
/// let types = Tensor::<2, Int>::from_ints([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], &device);
/// let logits = model.forward(tokens, Some(types), NewRows::First(&[5, 3]));
/// assert_eq!(logits.dims(), [2, 5, 31]);
/// ```
#[derive(Module, Debug)]
pub struct MaskedLanguageModel<S: ScoringFunction> {
    /// The embedding of tokens, positions and types.
    pub embedding: TokenEmbedding,
    /// The layers.
    pub stack: TransformerEncoder<S>,
    /// The layers from features to logits.
    pub head: MaskedLanguageModelHead,
}

/// The last layers of a [`MaskedLanguageModel`]: `W norm(f(W_t x + b_t)) + b`, where `W` may be the embedding of the
/// tokens.
#[derive(Module, Debug)]
pub struct MaskedLanguageModelHead {
    /// `W_t`, `[num_hiddens, num_hiddens]`.
    pub transform: Linear,
    /// The normalization before the logits.
    pub norm: Norm,
    /// `W`, `[num_hiddens, vocab_size]`, if it is not the embedding of the tokens.
    pub output: Option<Linear>,
    /// `b`, `[vocab_size]`.
    pub bias: Param<Tensor<1>>,
    #[module(skip)]
    activation: FeedForwardActivation,
}

impl<S: ScoringFunction> MaskedLanguageModel<S> {
    /// The logits of the token at each position of texts; `rows` tells tokens from padding, and without `types` all
    /// tokens have the first type, if the model has types.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, rows, vocab_size]`
    ///
    /// # Panics
    /// If a token or type does not exist, a text is longer than the model's positions, or `types` or `rows` do not fit.
    pub fn forward(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
    ) -> Tensor<3> {
        self.logits(self.features(tokens, types, rows))
    }

    /// The rows from which [`logits`](Self::logits) are computed: the features of each token of a text.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn features(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
    ) -> Tensor<3> {
        let none = Mask::none();
        features(&self.embedding, &self.stack, tokens, types, rows, none)
    }

    /// The logits of features, for example of masked tokens only, since the head is the largest layer.
    ///
    /// # Shapes
    /// - features `[.., num_hiddens]`, result `[.., vocab_size]`
    ///
    /// # Panics
    /// If size, type or device of the features differ from the parameters'.
    pub fn logits<const D: usize>(&self, features: Tensor<D>) -> Tensor<D> {
        let head = &self.head;
        let (weight, bias) = of_linear(&head.transform);
        let rows = linear(features, weight, bias);
        let rows = activate(rows, head.activation.function());
        let rows = head.norm.forward(rows);
        let (weight, _) = self.embedding.head(head.output.as_ref());
        linear(rows, weight, Some(value(&head.bias)))
    }
}
