//! Burn's decoder.

use attention_core::Mask;
use attention_core::drop_in::{Cached, MhaCache, MhaInput, MultiHeadAttention};
use burn::config::Config;
use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::transformer::PositionWiseFeedForward;
use burn::nn::{Dropout, Initializer};
use burn::tensor::{Bool, Device, Tensor};

use super::encoder::{Masks, check_layers};
use super::sublayers::{LayerSettings, Residual, attend, feed_forward, known_or};
use crate::norm::Norm;

/// Burn's `TransformerDecoderConfig`, field by field.
#[derive(Config, Debug)]
pub struct TransformerDecoderConfig {
    /// The size of a row.
    pub d_model: usize,
    /// The number of hidden units of the feed-forward network.
    pub d_ff: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The probability to drop, while training, an attention weight, a hidden unit or an element of what a sublayer
    /// adds.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Whether normalization comes before a sublayer, and not after the sum.
    #[config(default = false)]
    pub norm_first: bool,
    /// Whether the weights of a query may sum to less than 1: `exp(score) / (1 + sum exp(score))`.
    #[config(default = false)]
    pub quiet_softmax: bool,
    /// The distribution of new parameters.
    #[config(
        default = "Initializer::KaimingUniform { gain: 1.0 / f64::sqrt(3.0), fan_out_only: false }"
    )]
    pub initializer: Initializer,
    /// The activation of the feed-forward network.
    #[config(default = "ActivationConfig::Gelu")]
    pub activation: ActivationConfig,
    /// The epsilon of the normalizations.
    #[config(default = 1e-5)]
    pub layer_norm_eps: f64,
}

impl TransformerDecoderConfig {
    /// The decoder, with new random parameters on `device`.
    ///
    /// # Panics
    /// If `n_heads` does not divide `d_model`, a size is 0, or `dropout` is not in `[0, 1]`.
    pub fn init(&self, device: &Device) -> TransformerDecoder {
        let layers = (0..self.n_layers).map(|_| TransformerDecoderLayer::new(self, device));
        TransformerDecoder {
            layers: layers.collect(),
            d_model: self.d_model,
            d_ff: self.d_ff,
            n_heads: self.n_heads,
            n_layers: self.n_layers,
            dropout: self.dropout,
            norm_first: self.norm_first,
            quiet_softmax: self.quiet_softmax,
        }
    }

    fn settings(&self) -> LayerSettings<'_> {
        LayerSettings {
            d_model: self.d_model,
            d_ff: self.d_ff,
            n_heads: self.n_heads,
            dropout: self.dropout,
            quiet_softmax: self.quiet_softmax,
            initializer: &self.initializer,
            activation: &self.activation,
            layer_norm_eps: self.layer_norm_eps,
        }
    }
}

/// Burn's `TransformerDecoderInput`.
#[derive(Clone, Debug)]
pub struct TransformerDecoderInput {
    target: Tensor<3>,
    target_masks: Masks,
    memory: Tensor<3>,
    memory_masks: Masks,
}

impl TransformerDecoderInput {
    /// Rows and the memory that they attend to, without a mask.
    ///
    /// # Shapes
    /// - target `[batch, rows, d_model]`, memory `[batch, keys, d_model]`
    pub fn new(target: Tensor<3>, memory: Tensor<3>) -> Self {
        Self {
            target,
            target_masks: Masks::default(),
            memory,
            memory_masks: Masks::default(),
        }
    }

    /// The same with another mask of the memory's rows, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, keys]`
    pub fn memory_mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.memory_masks.pad = Some(mask_pad);
        self
    }

    /// The same with another mask of rows and the memory's, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, rows, keys]`
    pub fn memory_mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.memory_masks.attn = Some(mask_attn);
        self
    }

    /// The same with another mask of rows, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, rows]`
    pub fn target_mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.target_masks.pad = Some(mask_pad);
        self
    }

    /// The same with another mask of pairs of rows, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, rows, rows]`
    pub fn target_mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.target_masks.attn = Some(mask_attn);
        self
    }

    /// The same with another mask of this library for the attention of the rows to each other, beside the boolean ones;
    /// Burn has no such method.
    pub fn target_mask(mut self, mask: Mask) -> Self {
        self.target_masks.own = mask;
        self
    }

    /// The same with another mask of this library for the attention to the memory, beside the boolean ones; Burn has no
    /// such method.
    pub fn memory_mask(mut self, mask: Mask) -> Self {
        self.memory_masks.own = mask;
        self
    }
}

/// Burn's `TransformerDecoder`, with its results, record and fields; see the [differences](attention_core::drop_in).
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.1. The library's own, which projects a memory once, is
/// [`attention_transformers::TransformerDecoder`](crate::TransformerDecoder).
#[derive(Module, Debug)]
pub struct TransformerDecoder {
    /// The layers, the first one first.
    pub layers: Vec<TransformerDecoderLayer>,
    /// The size of a row.
    pub d_model: usize,
    /// The number of hidden units of the feed-forward network.
    pub d_ff: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The probability of dropout.
    pub dropout: f64,
    /// Whether normalization comes before a sublayer.
    pub norm_first: bool,
    /// False.
    pub quiet_softmax: bool,
}

impl TransformerDecoder {
    /// The rows after all layers.
    ///
    /// # Shapes
    /// - result `[batch, rows, d_model]`
    ///
    /// # Panics
    /// If the shapes or the masks do not fit together.
    pub fn forward(&self, input: TransformerDecoderInput) -> Tensor<3> {
        let input = self.with_resolved_masks(input);
        let layers = self.layers.iter();
        layers
            .fold(input, |input, layer| layer.run(input, None))
            .target
    }

    /// [`forward`](Self::forward) on all rows so far; only rows that are new since the last call with `cache` are
    /// computed. With a causal mask the results are the same. The memory stays the first call's. For inference.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), if there is no new row, or the cache is of another number of layers.
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerDecoderInput,
        cache: &mut TransformerDecoderAutoregressiveCache,
    ) -> Tensor<3> {
        check_layers(self.layers.len(), cache.layers.len());
        let input = self.with_resolved_masks(input);
        let layers = self.layers.iter().zip(&mut cache.layers);
        let output = layers.fold(input, |input, (layer, cache)| layer.run(input, Some(cache)));
        output.target
    }

    /// The input with masks that are resolved once for all layers.
    fn with_resolved_masks(&self, mut input: TransformerDecoderInput) -> TransformerDecoderInput {
        let [batch, rows, _] = input.target.dims();
        let [_, keys, _] = input.memory.dims();
        let device = input.target.device();
        for (masks, keys) in [
            (&mut input.target_masks, rows),
            (&mut input.memory_masks, keys),
        ] {
            let own = masks.resolved([batch, self.n_heads, rows, keys], &device);
            *masks = Masks {
                own,
                ..Masks::default()
            };
        }
        input
    }

    /// An empty cache.
    pub fn new_autoregressive_cache(&self) -> TransformerDecoderAutoregressiveCache {
        let empty = TransformerDecoderLayerAutoregressiveCache::empty;
        TransformerDecoderAutoregressiveCache {
            layers: self.layers.iter().map(|_| empty()).collect(),
        }
    }
}

/// Burn's `TransformerDecoderLayer`.
#[derive(Module, Debug)]
pub struct TransformerDecoderLayer {
    /// The attention of the rows to the memory.
    pub cross_attn: MultiHeadAttention,
    /// The attention of the rows to each other.
    pub self_attn: MultiHeadAttention,
    /// The feed-forward network.
    pub pwff: PositionWiseFeedForward,
    /// The normalization between the attentions.
    pub norm_1: Norm,
    /// The normalization between the attention to the memory and the feed-forward network.
    pub norm_2: Norm,
    /// The normalization before the first sublayer, or after the last.
    pub norm_3: Norm,
    /// Dropout on what a sublayer adds.
    pub dropout: Dropout,
    /// Whether normalization comes before a sublayer.
    pub norm_first: bool,
}

impl TransformerDecoderLayer {
    /// A layer with new random parameters on `device`.
    ///
    /// # Panics
    /// As [`TransformerDecoderConfig::init`].
    pub fn new(config: &TransformerDecoderConfig, device: &Device) -> Self {
        let settings = config.settings();
        Self {
            self_attn: settings.attention(device),
            cross_attn: settings.attention(device),
            norm_1: settings.norm(device),
            norm_2: settings.norm(device),
            norm_3: settings.norm(device),
            pwff: settings.feed_forward(device),
            dropout: settings.dropout(),
            norm_first: config.norm_first,
        }
    }

    /// The input with the rows after the layer as its target.
    ///
    /// # Panics
    /// If the shapes or the masks do not fit together.
    pub fn forward(&self, input: TransformerDecoderInput) -> TransformerDecoderInput {
        self.run(input, None)
    }

    /// [`forward`](Self::forward), by a cache; see [`TransformerDecoder::forward_autoregressive_inference`].
    ///
    /// # Panics
    /// As [`forward`](Self::forward), or if there is no new row.
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerDecoderInput,
        cache: &mut TransformerDecoderLayerAutoregressiveCache,
    ) -> TransformerDecoderInput {
        self.run(input, Some(cache))
    }

    fn run(
        &self,
        input: TransformerDecoderInput,
        cache: Option<&mut TransformerDecoderLayerAutoregressiveCache>,
    ) -> TransformerDecoderInput {
        let parts = cache.map(|of| Parts {
            self_attn: Some(&mut of.self_attn),
            cross_attn: Some(&mut of.cross_attn),
            pwff: Some(&mut of.pwff),
            norms: [&mut of.norm_1, &mut of.norm_2, &mut of.norm_3].map(Some),
        });
        let Parts {
            self_attn,
            cross_attn,
            pwff,
            norms: [of_norm_1, of_norm_2, of_norm_3],
        } = parts.unwrap_or_default();
        let norm_1 = (&self.norm_1, of_norm_1);
        let norm_2 = (&self.norm_2, of_norm_2);
        let norm_3 = (&self.norm_3, of_norm_3);
        let [(first, of_first), (second, of_second), (last, of_last)] = match self.norm_first {
            true => [norm_3, norm_1, norm_2],
            false => [norm_1, norm_2, norm_3],
        };
        let residual = |norm| Residual {
            norm,
            norm_first: self.norm_first,
            dropout: &self.dropout,
        };
        let target = input.target.clone();
        let rows = residual(first).forward(target, of_first, |rows| {
            let input = MhaInput::self_attn(rows).mask(input.target_masks.joined());
            attend(&self.self_attn, input, self_attn)
        });
        let rows = residual(second).forward(rows, of_second, |rows| {
            let memory = input.memory.clone();
            let mask = input.memory_masks.joined();
            let input = MhaInput::new(rows, memory.clone(), memory).mask(mask);
            attend(&self.cross_attn, input, cross_attn)
        });
        let target = residual(last).forward(rows, of_last, |rows| {
            known_or(pwff, rows, |rows| feed_forward(&self.pwff, rows))
        });
        TransformerDecoderInput { target, ..input }
    }
}

/// The parts of a layer's cache, none without one.
#[derive(Default)]
struct Parts<'a> {
    self_attn: Option<&'a mut MhaCache>,
    cross_attn: Option<&'a mut MhaCache>,
    pwff: Option<&'a mut Cached<3>>,
    norms: [Option<&'a mut Cached<3>>; 3],
}

/// Burn's `TransformerDecoderAutoregressiveCache`.
#[derive(Clone, Debug)]
pub struct TransformerDecoderAutoregressiveCache {
    layers: Vec<TransformerDecoderLayerAutoregressiveCache>,
}

/// Burn's `TransformerDecoderLayerAutoregressiveCache`.
#[derive(Clone, Debug)]
pub struct TransformerDecoderLayerAutoregressiveCache {
    cross_attn: MhaCache,
    self_attn: MhaCache,
    pwff: Cached<3>,
    norm_1: Cached<3>,
    norm_2: Cached<3>,
    norm_3: Cached<3>,
}

impl TransformerDecoderLayerAutoregressiveCache {
    /// An empty cache.
    pub fn empty() -> Self {
        Self {
            cross_attn: MhaCache::autoregressive_cross_attention(),
            self_attn: MhaCache::autoregressive(),
            pwff: Cached::growing(),
            norm_1: Cached::growing(),
            norm_2: Cached::growing(),
            norm_3: Cached::growing(),
        }
    }
}
