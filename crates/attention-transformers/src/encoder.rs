//! Stacks of encoder layers.

use attention_core::functional::AttentionOptions;
use attention_core::padding::Padding;
use attention_core::position::{RelativePositionBias, RelativePositionBiasConfig};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, NewRows, ScoringFunction};
use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::assert_positive;

use crate::cache::TransformerCache;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::layer_config::TransformerLayerConfig;
use crate::norm::{Norm, normalized};
use crate::residual::NormOrder;

/// Configuration of [`TransformerEncoder`].
#[derive(Config, Debug)]
pub struct TransformerEncoderConfig {
    /// The configuration of each layer.
    pub layer: TransformerLayerConfig,
    /// The number of layers.
    pub num_layers: usize,
    /// Whether a normalization follows the last layer; by default unless the layers end with one
    /// ([`NormOrder::Post`]).
    #[config(default = "None")]
    pub final_norm: Option<bool>,
    /// A relative position bias that all layers share, as in T5, in addition to what their scores know about positions.
    /// It is a single parameter: clones of a score with a bias, one per layer, would diverge in training, because an
    /// optimizer changes only the first of several parameters that share an identity.
    #[config(default = "None")]
    pub position_bias: Option<RelativePositionBiasConfig>,
}

impl TransformerEncoderConfig {
    /// A stack of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If there are no layers, a position bias has another number of heads than the layers, and as
    /// [`TransformerLayerConfig::init_encoder`] and [`RelativePositionBiasConfig::init`].
    pub fn init(&self, device: &Device) -> TransformerEncoder<DotProductScore> {
        self.init_with(|_| DotProductScoreConfig::new().init(), device)
    }

    /// A stack with the scores that `score` makes from the index of each layer. Each layer should have its own score: a
    /// cloned module shares the identity of its parameters, which optimizers use.
    ///
    /// ```
    /// use attention_transformers::{TransformerEncoderConfig, TransformerLayerConfig};
    /// use attention_core::Mask;
    /// use attention_core::score::AdditiveScoreConfig;
    /// use burn::prelude::*;
    ///
    /// let device = Device::flex();
    /// let config = TransformerEncoderConfig::new(TransformerLayerConfig::new(12, 3, 17), 2);
    /// let score = AdditiveScoreConfig::new(4, 4, 5);
    /// let stack = config.init_with(|_| score.init(&device), &device);
    /// let rows = stack.forward(Tensor::ones([2, 5, 12], &device), &Mask::none());
    /// assert_eq!(rows.dims(), [2, 5, 12]);
    /// ```
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<S: ScoringFunction>(
        &self,
        mut score: impl FnMut(usize) -> S,
        device: &Device,
    ) -> TransformerEncoder<S> {
        let sizes = [("num_layers", self.num_layers)];
        assert_positive("TransformerEncoderConfig", &sizes);
        let layers = (0..self.num_layers).map(|at| self.layer.init_encoder_with(score(at), device));
        TransformerEncoder {
            layers: layers.collect(),
            norm: final_norm(&self.layer, self.final_norm, device),
            position_bias: shared_bias(&self.layer, &self.position_bias, device),
        }
    }
}

/// The normalization after the last layer of a stack.
pub(crate) fn final_norm(
    layer: &TransformerLayerConfig,
    is_wanted: Option<bool>,
    device: &Device,
) -> Option<Norm> {
    let is_wanted = is_wanted.unwrap_or(layer.norm_order != NormOrder::Post);
    is_wanted.then(|| layer.norm.init(layer.num_hiddens, device))
}

/// The position bias of a stack.
///
/// # Panics
/// If it has another number of heads than the layers.
pub(crate) fn shared_bias(
    layer: &TransformerLayerConfig,
    bias: &Option<RelativePositionBiasConfig>,
    device: &Device,
) -> Option<RelativePositionBias> {
    let config = bias.as_ref()?;
    let (expected, got) = (layer.num_heads, config.num_heads);
    assert!(
        got == expected,
        "Transformer: position_bias of {expected} heads expected, as the layers have, got {got}"
    );
    Some(config.init(device))
}

/// A stack of [`TransformerEncoderLayer`]s around any scoring function, with positions if the score has them.
///
/// With a causal mask, or [a cache](Self::forward_cached), it is the stack of a language model, a "decoder" without a
/// memory.
///
/// Padding is zero in the result, whatever it holds, NaN included, and reaches neither other rows nor any gradient: it
/// is cleared before the first layer and after the last. A row is padding if the mask hides it from every row: by the
/// length of its example ([`Mask::valid_lens`](attention_core::Mask::valid_lens)), by a mask of keys
/// ([`Mask::padding`](attention_core::Mask::padding)) or after the last of its segments; lengths per query and masks of
/// pairs define no padding.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.1. PyTorch equivalent: `torch.nn.TransformerEncoder`,
/// which in training leaves arbitrary numbers in padding.
///
/// ```
/// use attention_core::Mask;
/// use attention_transformers::{TransformerEncoderConfig, TransformerLayerConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let config = TransformerEncoderConfig::new(TransformerLayerConfig::new(12, 3, 17), 2);
/// let stack = config.init(&device);
/// let mask = Mask::valid_lens(Tensor::from_ints([5, 3], &device));
/// let rows = stack.forward(Tensor::ones([2, 5, 12], &device), &mask);
/// assert_eq!(rows.dims(), [2, 5, 12]);
/// ```
#[derive(Module, Debug)]
pub struct TransformerEncoder<S: ScoringFunction> {
    /// The layers, the first one first.
    pub layers: Vec<TransformerEncoderLayer<S>>,
    /// The normalization after the last layer.
    pub norm: Option<Norm>,
    /// The relative position bias of all layers: a single parameter, whose gradient is summed over the layers.
    pub position_bias: Option<RelativePositionBias>,
}

impl<S: ScoringFunction> TransformerEncoder<S> {
    /// The rows after all layers, with a mask of the rows that each attends to, or with [`AttentionOptions`] for every
    /// layer.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// If the shapes or the options do not fit together.
    pub fn forward(&self, rows: Tensor<3>, options: impl Into<AttentionOptions>) -> Tensor<3> {
        let options = options.into();
        let padding = Padding::of_mask(&options.mask, &rows);
        self.forward_padded(rows, &padding, options)
    }

    /// [`forward`](Self::forward) with known padding.
    pub(crate) fn forward_padded(
        &self,
        rows: Tensor<3>,
        padding: &Padding,
        mut options: AttentionOptions,
    ) -> Tensor<3> {
        let [batch, num_rows, _] = rows.dims();
        let heads = self.layers.first().map_or(1, |of| of.attention.num_heads());
        // All layers without a window share it, resolved.
        let scores = [batch, heads, num_rows, num_rows];
        options.mask = options.mask.resolved_for(scores, &rows.device());
        let layers = self.layers.iter();
        let rows = layers.fold(padding.clear(rows), |rows, layer| {
            match &self.position_bias {
                Some(bias) => layer.biased(bias).forward(rows, &options),
                None => layer.forward(rows, &options),
            }
        });
        padding.clear(normalized(&self.norm, rows))
    }

    /// An empty cache for [`forward_cached`](Self::forward_cached), with the windows of the layers.
    pub fn cache(&self) -> TransformerCache {
        TransformerCache::of_windows(self.layers.iter().map(|layer| layer.window))
    }

    /// The last rows of texts after all layers: the rows that [`forward`](Self::forward) computes for them with a
    /// causal mask and the whole texts. `cache` has the keys and values so far; those of the `new` rows are appended. A
    /// prompt of many rows and the single rows after it go through the same call.
    ///
    /// For generation, without autodiff.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`, zeros in rows that are not `new`
    ///
    /// # Panics
    /// If the cache has another number of layers, and as
    /// [`MultiHeadAttention::forward_cached`](attention_core::MultiHeadAttention::forward_cached).
    pub fn forward_cached(
        &self,
        rows: Tensor<3>,
        new: NewRows,
        cache: &mut TransformerCache,
    ) -> Tensor<3> {
        cache.check("TransformerEncoder", self.layers.len());
        let padding = Padding::of_new(new, &rows);
        let layers = self.layers.iter().zip(&mut cache.layers);
        let rows = layers.fold(padding.clear(rows), |rows, (layer, cache)| {
            match &self.position_bias {
                Some(bias) => layer.biased(bias).forward_cached(rows, new, cache),
                None => layer.forward_cached(rows, new, cache),
            }
        });
        padding.clear(normalized(&self.norm, rows))
    }
}
