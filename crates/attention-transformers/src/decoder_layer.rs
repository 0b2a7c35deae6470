//! The layer of a Transformer decoder.

use attention_core::functional::AttentionOptions;
use attention_core::position::RelativePositionBias;
use attention_core::score::Biased;
use attention_core::{
    DotProductScore, KeyValueCache, Mask, Memory, MultiHeadAttention, NewRows, ScoringFunction,
};
use burn::module::Module;
use burn::tensor::Tensor;

use crate::encoder_layer::{biased, within};
use crate::feed_forward::FeedForward;
use crate::residual::Residual;

/// Self-attention, attention to a memory, and a feed-forward network, each within a residual connection; made by
/// [`TransformerLayerConfig`](super::TransformerLayerConfig).
///
/// The keys and values of the memory, such as an encoder's rows, are projected once, by [`prepare`](Self::prepare).
///
/// The layer computes padding like any other row. A stack of layers, [`TransformerDecoder`], clears padding before the
/// first layer.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.1. PyTorch equivalent:
/// `torch.nn.TransformerDecoderLayer(batch_first=True)`, whose `dropout` sets all three here.
///
/// [`TransformerDecoder`]: super::TransformerDecoder
///
/// ```
/// use attention_core::Mask;
/// use attention_transformers::TransformerLayerConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let layer = TransformerLayerConfig::new(12, 3, 17).init_decoder(&device);
/// let memory = layer.prepare(Tensor::<3>::ones([2, 7, 12], &device), Mask::none());
/// let rows = layer.forward(Tensor::<3>::ones([2, 5, 12], &device), &Mask::causal(), &memory);
/// assert_eq!(rows.dims(), [2, 5, 12]);
/// ```
#[derive(Module, Debug)]
pub struct TransformerDecoderLayer<S: ScoringFunction, C: ScoringFunction = DotProductScore> {
    /// The attention of the rows to each other.
    pub attention: MultiHeadAttention<S>,
    /// The residual connection around this attention.
    pub attention_residual: Residual,
    /// The attention of the rows to the memory.
    pub cross_attention: MultiHeadAttention<C>,
    /// The residual connection around this attention.
    pub cross_attention_residual: Residual,
    /// The feed-forward network.
    pub feed_forward: FeedForward,
    /// The residual connection around the network.
    pub feed_forward_residual: Residual,
    /// The number of rows, including its own as the last, that a row attends to; `None` for no limit.
    pub window: Option<usize>,
}

impl<S: ScoringFunction, C: ScoringFunction> TransformerDecoderLayer<S, C> {
    /// Projects the keys and values of a memory once, for all later rows.
    ///
    /// # Shapes
    /// - memory `[batch, keys, memory_size]`
    ///
    /// # Panics
    /// If the memory does not fit the layer, or the mask the memory.
    pub fn prepare(&self, memory: Tensor<3>, mask: Mask) -> Memory {
        self.cross_attention.prepare(memory.clone(), memory, mask)
    }

    /// The rows after the layer, with a mask of the rows that each attends to, or with [`AttentionOptions`] for the
    /// attention of the rows to each other. A decoder that generates token by token needs [`Mask::causal`].
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// If the shapes or the options do not fit together, or the memory was prepared for a score of another type.
    pub fn forward(
        &self,
        rows: Tensor<3>,
        options: impl Into<AttentionOptions>,
        memory: &Memory,
    ) -> Tensor<3> {
        self.run(rows, options.into(), memory, None)
    }

    /// [`forward`](Self::forward), which appends the weights of the attention to the memory to `weights`, `[batch,
    /// heads, rows, keys]`.
    pub(crate) fn run(
        &self,
        rows: Tensor<3>,
        options: AttentionOptions,
        memory: &Memory,
        weights: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let options = within(self.window, options);
        let rows = self.attention_residual.forward(rows, |rows| {
            let attention = &self.attention;
            attention.forward(rows.clone(), rows.clone(), rows, options)
        });
        let attention = &self.cross_attention;
        self.after_attention(rows, |rows| match weights {
            Some(weights) => {
                let output = attention.attend_with_weights(rows, memory, Mask::none());
                weights.push(output.weights);
                output.context
            }
            None => attention.attend(rows, memory, Mask::none()),
        })
    }

    /// The last rows of texts after the layer. `cache` has the keys and values so far; those of the `new` rows are
    /// appended, as in [`forward_cached`](crate::layer::TransformerEncoderLayer::forward_cached) of the encoder layer.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// As [`forward`](Self::forward) and [`MultiHeadAttention::forward_cached`].
    pub fn forward_cached(
        &self,
        rows: Tensor<3>,
        new: NewRows,
        memory: &Memory,
        cache: &mut KeyValueCache,
    ) -> Tensor<3> {
        let rows = self.attention_residual.forward(rows, |rows| {
            let attention = &self.attention;
            attention.forward_cached(rows.clone(), rows.clone(), rows, new, cache, Mask::none())
        });
        self.after_attention(rows, |rows| {
            self.cross_attention.attend(rows, memory, Mask::none())
        })
    }

    /// This layer with `bias` on the scores of the rows among each other. Cloned parameters remain the same parameters,
    /// so gradients reach them.
    pub(crate) fn biased(
        &self,
        bias: &RelativePositionBias,
    ) -> TransformerDecoderLayer<Biased<S, RelativePositionBias>, C> {
        TransformerDecoderLayer {
            attention: biased(&self.attention, bias),
            attention_residual: self.attention_residual.clone(),
            cross_attention: self.cross_attention.clone(),
            cross_attention_residual: self.cross_attention_residual.clone(),
            feed_forward: self.feed_forward.clone(),
            feed_forward_residual: self.feed_forward_residual.clone(),
            window: self.window,
        }
    }

    /// The rows after the attention to the memory, `attend`, and the feed-forward network.
    fn after_attention(
        &self,
        rows: Tensor<3>,
        attend: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let rows = self.cross_attention_residual.forward(rows, attend);
        let (network, residual) = (&self.feed_forward, &self.feed_forward_residual);
        residual.forward(rows, |rows| network.forward(rows))
    }
}
