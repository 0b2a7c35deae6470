//! Burn's encoder.

use attention_core::Mask;
use attention_core::drop_in::{Cached, MhaCache, MhaInput, MultiHeadAttention};
use burn::config::Config;
use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::transformer::PositionWiseFeedForward;
use burn::nn::{Dropout, Initializer};
use burn::tensor::{Bool, Device, Tensor};

use super::sublayers::{LayerSettings, Residual, attend, feed_forward, known_or};
use crate::norm::Norm;

/// Burn's `TransformerEncoderConfig`, field by field.
#[derive(Config, Debug)]
pub struct TransformerEncoderConfig {
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

impl TransformerEncoderConfig {
    /// The encoder, with new random parameters on `device`.
    ///
    /// # Panics
    /// If `n_heads` does not divide `d_model`, a size is 0, or `dropout` is not in `[0, 1]`.
    pub fn init(&self, device: &Device) -> TransformerEncoder {
        let layers = (0..self.n_layers).map(|_| TransformerEncoderLayer::new(self, device));
        TransformerEncoder {
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

/// Burn's `TransformerEncoderInput`.
#[derive(Clone, Debug)]
pub struct TransformerEncoderInput {
    tensor: Tensor<3>,
    masks: Masks,
}

impl TransformerEncoderInput {
    /// Rows without a mask.
    ///
    /// # Shapes
    /// - tensor `[batch, rows, d_model]`
    pub fn new(tensor: Tensor<3>) -> Self {
        Self {
            tensor,
            masks: Masks::default(),
        }
    }

    /// The same with another mask of rows, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, rows]`
    pub fn mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.masks.pad = Some(mask_pad);
        self
    }

    /// The same with another mask of pairs, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, rows, rows]`
    pub fn mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.masks.attn = Some(mask_attn);
        self
    }

    /// The same with another mask of this library, beside the boolean ones; Burn has no such method.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.masks.own = mask;
        self
    }
}

/// The masks of an attention.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    pub(super) pad: Option<Tensor<2, Bool>>,
    pub(super) attn: Option<Tensor<3, Bool>>,
    pub(super) own: Mask,
}

impl Masks {
    /// One mask of the pairs that all of them keep.
    pub(super) fn joined(&self) -> Mask {
        let pad = self.pad.clone().map_or_else(Mask::none, Mask::from);
        let attn = self.attn.clone().map_or_else(Mask::none, Mask::from);
        self.own.clone() & pad & attn
    }

    /// [`joined`](Self::joined), resolved for scores `[batch, heads, queries, keys]`: once for all layers.
    pub(super) fn resolved(&self, scores: [usize; 4], device: &Device) -> Mask {
        self.joined().resolved_for(scores, device)
    }
}

/// Burn's `TransformerEncoder`, with its results, record and fields; see the [differences](attention_core::drop_in).
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.1. The library's own is
/// [`attention_transformers::TransformerEncoder`](crate::TransformerEncoder).
#[derive(Module, Debug)]
pub struct TransformerEncoder {
    /// The layers, the first one first.
    pub layers: Vec<TransformerEncoderLayer>,
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

impl TransformerEncoder {
    /// The rows after all layers.
    ///
    /// # Shapes
    /// - result `[batch, rows, d_model]`
    ///
    /// # Panics
    /// If the shapes or the masks do not fit together.
    pub fn forward(&self, input: TransformerEncoderInput) -> Tensor<3> {
        let mask = self.mask(&input);
        self.layers.iter().fold(input.tensor, |rows, layer| {
            layer.run(rows, mask.clone(), None)
        })
    }

    /// [`forward`](Self::forward) on all rows so far; only rows that are new since the last call with `cache` are
    /// computed. With a causal mask the results are the same. For inference.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), if there is no new row, or the cache is of another number of layers.
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerEncoderInput,
        cache: &mut TransformerEncoderAutoregressiveCache,
    ) -> Tensor<3> {
        check_layers(self.layers.len(), cache.layers.len());
        let mask = self.mask(&input);
        let layers = self.layers.iter().zip(&mut cache.layers);
        layers.fold(input.tensor, |rows, (layer, cache)| {
            layer.run(rows, mask.clone(), Some(cache))
        })
    }

    fn mask(&self, input: &TransformerEncoderInput) -> Mask {
        let [batch, rows, _] = input.tensor.dims();
        let scores = [batch, self.n_heads, rows, rows];
        input.masks.resolved(scores, &input.tensor.device())
    }

    /// An empty cache.
    pub fn new_autoregressive_cache(&self) -> TransformerEncoderAutoregressiveCache {
        let empty = TransformerEncoderLayerAutoregressiveCache::empty;
        TransformerEncoderAutoregressiveCache {
            layers: self.layers.iter().map(|_| empty()).collect(),
        }
    }
}

/// # Panics
/// If a cache is of another number of layers.
pub(super) fn check_layers(expected: usize, got: usize) {
    assert!(
        got == expected,
        "drop_in: a cache of {expected} layers expected, as many as the stack has, got one of {got}"
    );
}

/// Burn's `TransformerEncoderLayer`.
#[derive(Module, Debug)]
pub struct TransformerEncoderLayer {
    /// The attention of the rows to each other.
    pub mha: MultiHeadAttention,
    /// The feed-forward network.
    pub pwff: PositionWiseFeedForward,
    /// The normalization of the feed-forward network's input, by either order.
    pub norm_1: Norm,
    /// The normalization before attention, or after the feed-forward network.
    pub norm_2: Norm,
    /// Dropout on what a sublayer adds.
    pub dropout: Dropout,
    /// Whether normalization comes before a sublayer.
    pub norm_first: bool,
}

impl TransformerEncoderLayer {
    /// A layer with new random parameters on `device`.
    ///
    /// # Panics
    /// As [`TransformerEncoderConfig::init`].
    pub fn new(config: &TransformerEncoderConfig, device: &Device) -> Self {
        let settings = config.settings();
        Self {
            mha: settings.attention(device),
            norm_1: settings.norm(device),
            norm_2: settings.norm(device),
            pwff: settings.feed_forward(device),
            dropout: settings.dropout(),
            norm_first: config.norm_first,
        }
    }

    /// The rows after the layer, with masks that are true where masked.
    ///
    /// # Shapes
    /// - input and result `[batch, rows, d_model]`, mask_pad `[batch, rows]`, mask_attn `[batch, rows, rows]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(
        &self,
        input: Tensor<3>,
        mask_pad: Option<Tensor<2, Bool>>,
        mask_attn: Option<Tensor<3, Bool>>,
    ) -> Tensor<3> {
        self.run(input, both(mask_pad, mask_attn), None)
    }

    /// [`forward`](Self::forward), by a cache; see [`TransformerEncoder::forward_autoregressive_inference`].
    ///
    /// # Panics
    /// If the shapes do not fit together, or there is no new row.
    pub fn forward_autoregressive_inference(
        &self,
        input: Tensor<3>,
        mask_pad: Option<Tensor<2, Bool>>,
        mask_attn: Option<Tensor<3, Bool>>,
        cache: &mut TransformerEncoderLayerAutoregressiveCache,
    ) -> Tensor<3> {
        self.run(input, both(mask_pad, mask_attn), Some(cache))
    }

    fn run(
        &self,
        rows: Tensor<3>,
        mask: Mask,
        cache: Option<&mut TransformerEncoderLayerAutoregressiveCache>,
    ) -> Tensor<3> {
        let parts = cache.map(|of| Parts {
            mha: Some(&mut of.mha),
            pwff: Some(&mut of.pwff),
            norms: [&mut of.norm_1, &mut of.norm_2].map(Some),
        });
        let Parts {
            mha,
            pwff,
            norms: [of_norm_1, of_norm_2],
        } = parts.unwrap_or_default();
        let norm_1 = (&self.norm_1, of_norm_1);
        let norm_2 = (&self.norm_2, of_norm_2);
        let [(first, of_first), (last, of_last)] = match self.norm_first {
            true => [norm_2, norm_1],
            false => [norm_1, norm_2],
        };
        let residual = |norm| Residual {
            norm,
            norm_first: self.norm_first,
            dropout: &self.dropout,
        };
        let rows = residual(first).forward(rows, of_first, |rows| {
            attend(&self.mha, MhaInput::self_attn(rows).mask(mask), mha)
        });
        residual(last).forward(rows, of_last, |rows| {
            known_or(pwff, rows, |rows| feed_forward(&self.pwff, rows))
        })
    }
}

/// The parts of a layer's cache, none without one.
#[derive(Default)]
struct Parts<'a> {
    mha: Option<&'a mut MhaCache>,
    pwff: Option<&'a mut Cached<3>>,
    norms: [Option<&'a mut Cached<3>>; 2],
}

/// One mask of both kinds.
fn both(pad: Option<Tensor<2, Bool>>, attn: Option<Tensor<3, Bool>>) -> Mask {
    let own = Mask::none();
    Masks { pad, attn, own }.joined()
}

/// Burn's `TransformerEncoderAutoregressiveCache`.
#[derive(Clone, Debug)]
pub struct TransformerEncoderAutoregressiveCache {
    layers: Vec<TransformerEncoderLayerAutoregressiveCache>,
}

/// Burn's `TransformerEncoderLayerAutoregressiveCache`.
#[derive(Clone, Debug)]
pub struct TransformerEncoderLayerAutoregressiveCache {
    mha: MhaCache,
    pwff: Cached<3>,
    norm_1: Cached<3>,
    norm_2: Cached<3>,
}

impl TransformerEncoderLayerAutoregressiveCache {
    /// An empty cache.
    pub fn empty() -> Self {
        Self {
            mha: MhaCache::autoregressive(),
            pwff: Cached::growing(),
            norm_1: Cached::growing(),
            norm_2: Cached::growing(),
        }
    }
}
