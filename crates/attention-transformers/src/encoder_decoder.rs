//! Encoder-decoder models.

use attention_core::padding::{last_tokens, mask_of_tokens};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, NewRows, ScoringFunction};
use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::linear;

use crate::cache::TransformerCache;
use crate::decoder::{DecoderMemory, TransformerDecoder, TransformerDecoderConfig};
use crate::embedding::{TokenEmbedding, TokenEmbeddingConfig};
use crate::encoder::{TransformerEncoder, TransformerEncoderConfig};
use crate::generate::{CausalModel, SelectTexts};
use crate::position_embedding::PositionLimit;

const NAME: &str = "EncoderDecoder";

/// Configuration of [`EncoderDecoder`].
#[derive(Config, Debug)]
pub struct EncoderDecoderConfig {
    /// The embedding of target tokens, and of source tokens too unless `source_embedding` is set. Its size is
    /// `num_hiddens` of both stacks.
    pub embedding: TokenEmbeddingConfig,
    /// The configuration of the encoder.
    pub encoder: TransformerEncoderConfig,
    /// The configuration of the decoder, whose memory has the size of the encoder's rows.
    pub decoder: TransformerDecoderConfig,
    /// The configuration of the embedding of source tokens, if it is a separate one.
    #[config(default = "None")]
    pub source_embedding: Option<TokenEmbeddingConfig>,
    /// Whether the head also uses the embedding as its weight: Press & Wolf 2017, "Using the Output Embedding to
    /// Improve Language Models".
    #[config(default = true)]
    pub tied: bool,
    /// Whether the logits have a bias.
    #[config(default = false)]
    pub head_bias: bool,
    /// The factor on the features before the head; by default 1. T5 with a tied head uses `1 / sqrt(num_hiddens)`.
    #[config(default = 1.0)]
    pub feature_scale: f64,
}

impl EncoderDecoderConfig {
    /// A model of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If the size of an embedding differs from that of the rows, the size of the memory from that of the encoder's
    /// rows, `feature_scale` is not a positive number, and as [`TokenEmbeddingConfig::init`],
    /// [`TransformerEncoderConfig::init`] and [`TransformerDecoderConfig::init`].
    pub fn init(&self, device: &Device) -> EncoderDecoder<DotProductScore> {
        let score = |_| DotProductScoreConfig::new().init();
        self.init_with(score, score, score, device)
    }

    /// A model with the scores that the functions make from the index of each layer: `encoder_score` and
    /// `decoder_score` are for rows among each other, `cross_score` is for the decoder's rows with the encoder's. Each
    /// layer should have its own score, as in [`TransformerDecoderConfig::init_with`].
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<S: ScoringFunction, C: ScoringFunction>(
        &self,
        encoder_score: impl FnMut(usize) -> S,
        decoder_score: impl FnMut(usize) -> S,
        cross_score: impl FnMut(usize) -> C,
        device: &Device,
    ) -> EncoderDecoder<S, C> {
        self.check();
        let (embedding, source) = (&self.embedding, &self.source_embedding);
        let head = || {
            let config = LinearConfig::new(embedding.size, embedding.vocab_size);
            config.with_bias(self.head_bias).init(device)
        };
        EncoderDecoder {
            embedding: embedding.init(device),
            source_embedding: source.as_ref().map(|of| of.init(device)),
            encoder: self.encoder.init_with(encoder_score, device),
            decoder: self.decoder.init_with(decoder_score, cross_score, device),
            head: (!self.tied).then(head),
            head_bias: (self.tied && self.head_bias)
                .then(|| Initializer::Zeros.init([embedding.vocab_size], device)),
            feature_scale: self.feature_scale,
        }
    }

    fn check(&self) {
        const NAME: &str = "EncoderDecoderConfig";
        let [encoder, decoder] = [&self.encoder.layer, &self.decoder.layer];
        let source = self.source_embedding.as_ref().unwrap_or(&self.embedding);
        let memory_size = decoder.memory_size.unwrap_or(decoder.num_hiddens);
        let [reading, writing] = [encoder.num_hiddens, decoder.num_hiddens];
        let sizes = [
            ("embedding", "decoder", writing, self.embedding.size),
            ("embedding of the source", "encoder", reading, source.size),
            ("memory", "encoder", reading, memory_size),
        ];
        for (name, of, expected, got) in sizes {
            assert!(
                got == expected,
                "{NAME}: {name} of size {expected} expected, as the num_hiddens of the {of}, got {got}"
            );
        }
        assert!(
            self.feature_scale.is_finite() && self.feature_scale > 0.0,
            "{NAME}: feature_scale expected a finite number above 0, got {}",
            self.feature_scale
        );
    }
}

/// A model that reads one text and writes another: an encoder, a decoder whose rows attend to the rows before them and
/// to the encoder's, and a head. The original Transformer and T5 are such models.
///
/// Padding reaches nothing, whatever it holds: it need not be a valid token.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3; Raffel et al. 2020, "Exploring the Limits of Transfer
/// Learning with a Unified Text-to-Text Transformer", section 2.1.
///
/// ```
/// use attention_transformers::layer::NormConfig;
/// use attention_transformers::{
///     EncoderDecoderConfig, GenerateConfig, TokenEmbeddingConfig, TransformerDecoderConfig,
///     TransformerEncoderConfig, TransformerLayerConfig,
/// };
/// use attention_core::NewRows;
/// use attention_core::position::RelativePositionBiasConfig;
/// use attention_core::score::DotProductScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// // A small T5: RMS norms, no biases, no factor on scores, a position bias that all layers of a stack share.
/// let layer = TransformerLayerConfig::new(16, 4, 21)
///     .with_norm(NormConfig::rms())
///     .with_attention_bias(false)
///     .with_feed_forward_bias(false);
/// let bias = RelativePositionBiasConfig::new(4);
/// let encoder = TransformerEncoderConfig::new(layer.clone(), 2).with_position_bias(Some(bias.clone()));
/// let decoder = TransformerDecoderConfig::new(layer, 2).with_position_bias(Some(bias.with_bidirectional(false)));
/// let config = EncoderDecoderConfig::new(TokenEmbeddingConfig::new(31, 16), encoder, decoder)
///     .with_feature_scale(0.25);
/// let score = |_| DotProductScoreConfig::new().with_scale(Some(1.0)).init();
/// let model = config.init_with(score, score, score, &device);
///
/// // Two texts are read; the second is shorter.
/// let source = Tensor::<2, Int>::from_ints([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], &device);
/// let memory = model.encode(source, NewRows::First(&[5, 3]));
/// // Teacher forcing: logits of the token that follows each.
/// let target = Tensor::<2, Int>::from_ints([[0, 5, 8], [0, 9, 0]], &device);
/// let logits = model.forward(target, NewRows::First(&[3, 2]), &memory);
/// assert_eq!(logits.dims(), [2, 3, 31]);
/// // Generation, from the token with which all texts begin.
/// let texts = GenerateConfig::new(4).generate(&model, model.state(memory), &[[0], [0]]).run();
/// assert_eq!(texts[1].tokens.len(), 4);
/// ```
#[derive(Module, Debug)]
pub struct EncoderDecoder<S: ScoringFunction, C: ScoringFunction = DotProductScore> {
    /// The embedding of target tokens, and of source tokens unless they have their own.
    pub embedding: TokenEmbedding,
    /// The embedding of source tokens, if it is a separate one.
    pub source_embedding: Option<TokenEmbedding>,
    /// The encoder.
    pub encoder: TransformerEncoder<S>,
    /// The decoder.
    pub decoder: TransformerDecoder<S, C>,
    /// The linear layer from features to logits, `[num_hiddens, vocab_size]`, if it is not the embedding.
    pub head: Option<Linear>,
    /// The bias of the logits if the embedding is the head, `[vocab_size]`: Marian's `final_logits_bias`.
    pub head_bias: Option<Param<Tensor<1>>>,
    /// The factor on the features before the head.
    pub feature_scale: f64,
}

/// The source texts and the target texts so far: the state of generation by an [`EncoderDecoder`].
#[derive(Clone, Debug)]
pub struct EncoderDecoderState {
    /// The encoder's rows, as each layer of the decoder attends to them.
    pub memory: DecoderMemory,
    /// The target tokens so far.
    pub cache: TransformerCache,
}

impl EncoderDecoderState {
    /// Keeps the examples `indices`, in that order, as beam search does after a step.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// As [`DecoderMemory::select`] and [`TransformerCache::select`].
    pub fn select(&mut self, indices: Tensor<1, Int>) {
        self.memory = self.memory.select(indices.clone());
        self.cache.select(indices);
    }

    /// Repeats every example `beam` times, the copies next to each other.
    pub fn expand(&mut self, beam: usize) {
        self.memory = self.memory.expand(beam);
        self.cache.expand(beam);
    }
}

impl SelectTexts for EncoderDecoderState {
    fn select(&mut self, indices: Tensor<1, Int>) {
        Self::select(self, indices);
    }

    /// Texts with the same prompt have the same memory.
    fn select_of_same_prompts(&mut self, indices: Tensor<1, Int>) {
        self.cache.select(indices);
    }
}

impl<S: ScoringFunction, C: ScoringFunction> EncoderDecoder<S, C> {
    /// Reads texts: returns their rows after the encoder, projected for each layer of the decoder. `rows` tells tokens
    /// from padding.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`
    ///
    /// # Panics
    /// If a token does not exist, a text is longer than the model's positions, or `rows` do not fit.
    pub fn encode(&self, tokens: Tensor<2, Int>, rows: NewRows) -> DecoderMemory {
        let shape @ [batch, num_rows] = tokens.dims();
        let embedding = self.source_embedding.as_ref().unwrap_or(&self.embedding);
        let embedded = embedding.of_texts(tokens, None, rows, None);
        let mask = mask_of_tokens(rows, shape, &embedded.device());
        let encoded = match batch * num_rows {
            0 => embedded,
            _ => self.encoder.forward(embedded, &mask),
        };
        self.decoder.prepare(encoded, mask)
    }

    /// The logits of the token after each of `tokens`, for all positions at once, as in training by teacher forcing;
    /// `rows` tells tokens from padding.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, vocab_size]`
    ///
    /// # Panics
    /// If a token does not exist, a text is longer than the model's positions, `rows` do not fit, or the memory is of
    /// other texts or another model.
    pub fn forward(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        memory: &DecoderMemory,
    ) -> Tensor<3> {
        self.logits(self.features(tokens, rows, memory))
    }

    /// The rows from which [`logits`](Self::logits) are computed, for a loss that does not need all logits at once:
    /// `burn_fused_layers::linear_cross_entropy`.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn features(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        memory: &DecoderMemory,
    ) -> Tensor<3> {
        let shape @ [batch, num_rows] = tokens.dims();
        let embedded = self.embedding.of_texts(tokens, None, rows, None);
        if batch * num_rows == 0 {
            return embedded;
        }
        let mask = mask_of_tokens(rows, shape, &embedded.device());
        let features = self.decoder.forward(embedded, &mask, memory);
        self.scaled(features)
    }

    /// The logits of features.
    ///
    /// # Shapes
    /// - features `[.., num_hiddens]`, result `[.., vocab_size]`
    ///
    /// # Panics
    /// If size, type or device of the features differ from the parameters'.
    pub fn logits<const D: usize>(&self, features: Tensor<D>) -> Tensor<D> {
        let (weight, bias) = self.embedding.head(self.head.as_ref());
        let bias = bias.or(self.head_bias.as_ref().map(value));
        linear(features, weight, bias)
    }

    /// The state of texts that begin, made from the encoded source.
    pub fn state(&self, memory: DecoderMemory) -> EncoderDecoderState {
        let cache = self.decoder.cache();
        EncoderDecoderState { memory, cache }
    }

    /// The logits of the token after each of the last `tokens` of texts; the `new` rows are appended to the state.
    ///
    /// For generation, without autodiff.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, vocab_size]`
    ///
    /// # Panics
    /// As [`forward`](Self::forward) and [`TransformerDecoder::forward_cached`].
    pub fn forward_cached(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        state: &mut EncoderDecoderState,
    ) -> Tensor<3> {
        self.logits(self.features_cached(tokens, rows, state))
    }

    /// The rows from which [`forward_cached`](Self::forward_cached) computes logits.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// As [`forward_cached`](Self::forward_cached).
    pub fn features_cached(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        state: &mut EncoderDecoderState,
    ) -> Tensor<3> {
        let EncoderDecoderState { memory, cache } = state;
        cache.check(NAME, self.decoder.layers.len());
        // All layers have the same tokens.
        let seen = cache.layers.first();
        let embedded = self.embedding.of_texts(tokens, None, rows, seen);
        let features = self.decoder.forward_cached(embedded, rows, memory, cache);
        self.scaled(features)
    }

    fn scaled(&self, features: Tensor<3>) -> Tensor<3> {
        match self.feature_scale {
            1.0 => features,
            scale => features * scale,
        }
    }
}

impl<S: ScoringFunction, C: ScoringFunction> CausalModel for EncoderDecoder<S, C> {
    type State = EncoderDecoderState;

    fn device(&self) -> Device {
        self.embedding.tokens.weight.device()
    }

    fn next_logits(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        state: &mut EncoderDecoderState,
    ) -> Tensor<2> {
        let shape @ [_, num_rows] = tokens.dims();
        assert_positive(NAME, &[("rows of tokens", num_rows)]);
        let features = self.features_cached(tokens, rows, state);
        // The head is applied to the last rows only, as it is the largest layer.
        self.logits(last_tokens(features, rows, shape))
    }

    fn position_limit(&self) -> Option<PositionLimit> {
        self.embedding.position_limit()
    }

    fn lengths(&self, state: &EncoderDecoderState) -> Vec<usize> {
        state.cache.lengths()
    }
}
