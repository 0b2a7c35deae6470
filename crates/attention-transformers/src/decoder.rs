//! Stacks of decoder layers.

use attention_core::functional::AttentionOptions;
use attention_core::padding::Padding;
use attention_core::position::{RelativePositionBias, RelativePositionBiasConfig};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, Mask, Memory, NewRows, ScoringFunction};
use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::assert_positive;

use crate::cache::TransformerCache;
use crate::decoder_layer::TransformerDecoderLayer;
use crate::encoder::{final_norm, shared_bias};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::{Norm, normalized};

const NAME: &str = "TransformerDecoder";

/// Configuration of [`TransformerDecoder`].
#[derive(Config, Debug)]
pub struct TransformerDecoderConfig {
    /// The configuration of each layer.
    pub layer: TransformerLayerConfig,
    /// The number of layers.
    pub num_layers: usize,
    /// Whether a normalization follows the last layer; by default unless the layers end with one
    /// ([`NormOrder::Post`](super::NormOrder::Post)).
    #[config(default = "None")]
    pub final_norm: Option<bool>,
    /// A relative position bias that all layers share, as in T5, in the attention of the rows to each other. It is a
    /// single parameter: clones of a score with a bias, one per layer, would diverge in training, because an optimizer
    /// changes only the first of several parameters that share an identity.
    #[config(default = "None")]
    pub position_bias: Option<RelativePositionBiasConfig>,
}

impl TransformerDecoderConfig {
    /// A stack of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If there are no layers, a position bias has another number of heads than the layers, and as
    /// [`TransformerLayerConfig::init_encoder`] and [`RelativePositionBiasConfig::init`].
    pub fn init(&self, device: &Device) -> TransformerDecoder<DotProductScore> {
        let score = |_| DotProductScoreConfig::new().init();
        self.init_with(score, score, device)
    }

    /// A stack with the scores that `score` and, for the attention to the memory, `cross_score` make from the index of
    /// each layer. Each layer should have its own score: a cloned module shares the identity of its parameters, which
    /// optimizers use.
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<S: ScoringFunction, C: ScoringFunction>(
        &self,
        mut score: impl FnMut(usize) -> S,
        mut cross_score: impl FnMut(usize) -> C,
        device: &Device,
    ) -> TransformerDecoder<S, C> {
        let sizes = [("num_layers", self.num_layers)];
        assert_positive("TransformerDecoderConfig", &sizes);
        let layers = (0..self.num_layers).map(|at| {
            let (score, cross_score) = (score(at), cross_score(at));
            self.layer.init_decoder_with(score, cross_score, device)
        });
        TransformerDecoder {
            layers: layers.collect(),
            norm: final_norm(&self.layer, self.final_norm, device),
            position_bias: shared_bias(&self.layer, &self.position_bias, device),
        }
    }
}

/// A stack of [`TransformerDecoderLayer`]s: rows attend to each other, each to the rows up to itself, and to a memory.
///
/// Padding among the rows is zero in the result and reaches nothing, as in a
/// [`TransformerEncoder`](super::TransformerEncoder); the mask of [`prepare`](Self::prepare) says what is padding in
/// the memory.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.1. PyTorch equivalent: `torch.nn.TransformerDecoder`,
/// called with `tgt_is_causal`.
///
/// ```
/// use attention_transformers::{TransformerDecoderConfig, TransformerLayerConfig};
/// use attention_core::{Mask, NewRows};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let stack = TransformerDecoderConfig::new(TransformerLayerConfig::new(12, 3, 17), 2).init(&device);
/// let encoded = Tensor::<3>::ones([2, 7, 12], &device);
/// let memory = stack.prepare(encoded, Mask::valid_lens(Tensor::from_ints([7, 4], &device)));
/// // Teacher forcing: all rows at once.
/// let targets = Tensor::<3>::ones([2, 5, 12], &device);
/// assert_eq!(stack.forward(targets, &Mask::none(), &memory).dims(), [2, 5, 12]);
/// // Generation: one row after the other.
/// let mut cache = stack.cache();
/// for _ in 0..3 {
///     let row = Tensor::<3>::ones([2, 1, 12], &device);
///     let row = stack.forward_cached(row, NewRows::All, &memory, &mut cache);
///     assert_eq!(row.dims(), [2, 1, 12]);
/// }
/// ```
#[derive(Module, Debug)]
pub struct TransformerDecoder<S: ScoringFunction, C: ScoringFunction = DotProductScore> {
    /// The layers, the first one first.
    pub layers: Vec<TransformerDecoderLayer<S, C>>,
    /// The normalization after the last layer.
    pub norm: Option<Norm>,
    /// The relative position bias of all layers: a single parameter, whose gradient is summed over the layers.
    pub position_bias: Option<RelativePositionBias>,
}

/// The keys and values of a memory, projected by each layer of the stack that [prepared](TransformerDecoder::prepare)
/// it.
#[derive(Clone, Debug)]
pub struct DecoderMemory {
    /// One memory for each layer.
    pub layers: Vec<Memory>,
}

impl DecoderMemory {
    /// The memory of the examples `indices`, in that order, as beam search keeps it after a step.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// As [`Memory::select`].
    pub fn select(&self, indices: Tensor<1, Int>) -> Self {
        let selected = |layer: &Memory| layer.select(indices.clone());
        let layers = self.layers.iter().map(selected).collect();
        Self { layers }
    }

    /// The memory with every example repeated `beam` times, the copies next to each other.
    pub fn expand(&self, beam: usize) -> Self {
        let layers = self.layers.iter().map(|of| of.expand(beam)).collect();
        Self { layers }
    }
}

/// The result of [`TransformerDecoder::forward_with_weights`].
#[derive(Clone, Debug)]
pub struct TransformerDecoderOutput {
    /// `[batch, rows, num_hiddens]`, zeros in padding.
    pub rows: Tensor<3>,
    /// The weights of the rows' attention to the memory before dropout, `[batch, heads, rows, keys]` for each layer.
    pub weights: Vec<Tensor<4>>,
}

impl<S: ScoringFunction, C: ScoringFunction> TransformerDecoder<S, C> {
    /// Projects the keys and values of a memory once for each layer.
    ///
    /// # Shapes
    /// - memory `[batch, keys, memory_size]`
    ///
    /// # Panics
    /// If the memory does not fit the layers, or the mask the memory.
    pub fn prepare(&self, memory: Tensor<3>, mask: Mask) -> DecoderMemory {
        let layers = self.layers.iter();
        let layers = layers.map(|layer| layer.prepare(memory.clone(), mask.clone()));
        DecoderMemory {
            layers: layers.collect(),
        }
    }

    /// The rows after all layers, for all positions at once, as in training by teacher forcing. The mask, or the one in
    /// [`AttentionOptions`], is for the attention of the rows to each other, which is also causal: it says what is
    /// padding.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// If the shapes or the options do not fit together, or the memory has another number of layers or was prepared for
    /// scores of another type.
    pub fn forward(
        &self,
        rows: Tensor<3>,
        options: impl Into<AttentionOptions>,
        memory: &DecoderMemory,
    ) -> Tensor<3> {
        self.run(rows, options.into(), memory, None)
    }

    /// [`forward`](Self::forward), and the weights of the rows' attention to the memory in each layer.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_with_weights(
        &self,
        rows: Tensor<3>,
        options: impl Into<AttentionOptions>,
        memory: &DecoderMemory,
    ) -> TransformerDecoderOutput {
        let mut weights = Vec::with_capacity(self.layers.len());
        let rows = self.run(rows, options.into(), memory, Some(&mut weights));
        TransformerDecoderOutput { rows, weights }
    }

    /// The rows after all layers; appends the weights of the attention to the memory to `weights`.
    fn run(
        &self,
        rows: Tensor<3>,
        mut options: AttentionOptions,
        memory: &DecoderMemory,
        mut weights: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        self.check_memory(memory);
        let padding = Padding::of_mask(&options.mask, &rows);
        let [batch, num_rows, _] = rows.dims();
        let heads = self.layers.first().map_or(1, |of| of.attention.num_heads());
        let scores = [batch, heads, num_rows, num_rows];
        options.mask = (options.mask & Mask::causal()).resolved_for(scores, &rows.device());
        let layers = self.layers.iter().zip(&memory.layers);
        let rows = layers.fold(padding.clear(rows), |rows, (layer, memory)| {
            let (options, weights) = (options.clone(), weights.as_deref_mut());
            match &self.position_bias {
                Some(bias) => layer.biased(bias).run(rows, options, memory, weights),
                None => layer.run(rows, options, memory, weights),
            }
        });
        padding.clear(normalized(&self.norm, rows))
    }

    /// An empty cache for [`forward_cached`](Self::forward_cached), with the windows of the layers.
    pub fn cache(&self) -> TransformerCache {
        TransformerCache::of_windows(self.layers.iter().map(|layer| layer.window))
    }

    /// The last rows of texts after all layers: the rows that [`forward`](Self::forward) computes for them given the
    /// whole texts. `cache` has the keys and values so far; the call appends those of the `new` rows.
    ///
    /// For generation, without autodiff.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`, zeros in rows that are not `new`
    ///
    /// # Panics
    /// If memory or cache have another number of layers, and as
    /// [`MultiHeadAttention::forward_cached`](attention_core::MultiHeadAttention::forward_cached).
    pub fn forward_cached(
        &self,
        rows: Tensor<3>,
        new: NewRows,
        memory: &DecoderMemory,
        cache: &mut TransformerCache,
    ) -> Tensor<3> {
        self.check_memory(memory);
        cache.check(NAME, self.layers.len());
        let padding = Padding::of_new(new, &rows);
        let states = memory.layers.iter().zip(&mut cache.layers);
        let layers = self.layers.iter().zip(states);
        let rows = layers.fold(
            padding.clear(rows),
            |rows, (layer, (memory, cache))| match &self.position_bias {
                Some(bias) => layer.biased(bias).forward_cached(rows, new, memory, cache),
                None => layer.forward_cached(rows, new, memory, cache),
            },
        );
        padding.clear(normalized(&self.norm, rows))
    }

    fn check_memory(&self, memory: &DecoderMemory) {
        let (expected, got) = (self.layers.len(), memory.layers.len());
        assert!(
            got == expected,
            "{NAME}: a memory of {expected} layers expected, as many as the stack has, got one of {got}"
        );
    }
}
