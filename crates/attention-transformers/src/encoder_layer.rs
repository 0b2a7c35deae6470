//! The layer of a Transformer encoder.

use attention_core::functional::AttentionOptions;
use attention_core::position::RelativePositionBias;
use attention_core::score::Biased;
use attention_core::{KeyValueCache, Mask, MultiHeadAttention, NewRows, ScoringFunction};
use burn::module::Module;
use burn::tensor::Tensor;

use crate::feed_forward::FeedForward;
use crate::residual::Residual;

/// Self-attention around any scoring function and a feed-forward network, each within a residual connection; made by
/// [`TransformerLayerConfig`](super::TransformerLayerConfig).
///
/// With a causal mask it is the layer of a decoder without a memory, as in language models.
///
/// The layer computes padding like any other row. A stack of layers, [`TransformerEncoder`], clears padding before the
/// first layer.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.1. PyTorch equivalent:
/// `torch.nn.TransformerEncoderLayer(batch_first=True)`, whose `dropout` sets all three here.
///
/// [`TransformerEncoder`]: super::TransformerEncoder
///
/// ```
/// use attention_core::Mask;
/// use attention_transformers::TransformerLayerConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let layer = TransformerLayerConfig::new(12, 3, 17).init_encoder(&device);
/// let rows = layer.forward(Tensor::<3>::ones([2, 5, 12], &device), &Mask::causal());
/// assert_eq!(rows.dims(), [2, 5, 12]);
/// ```
#[derive(Module, Debug)]
pub struct TransformerEncoderLayer<S: ScoringFunction> {
    /// The attention of the rows to each other.
    pub attention: MultiHeadAttention<S>,
    /// The residual connection around the attention.
    pub attention_residual: Residual,
    /// The feed-forward network.
    pub feed_forward: FeedForward,
    /// The residual connection around the network.
    pub feed_forward_residual: Residual,
    /// The number of rows, including its own as the last, that a row attends to; `None` for no limit.
    pub window: Option<usize>,
}

impl<S: ScoringFunction> TransformerEncoderLayer<S> {
    /// The rows after the layer, with a mask of the rows that each attends to, or with [`AttentionOptions`].
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// If the shapes or the options do not fit together.
    pub fn forward(&self, rows: Tensor<3>, options: impl Into<AttentionOptions>) -> Tensor<3> {
        let options = within(self.window, options.into());
        let rows = self.attention_residual.forward(rows, |rows| {
            let attention = &self.attention;
            attention.forward(rows.clone(), rows.clone(), rows, options)
        });
        self.after_attention(rows)
    }

    /// The last rows of texts after the layer. `cache` has the keys and values so far; those of the `new` rows are
    /// appended; see [`KeyValueCache`].
    ///
    /// A layer with a [window](Self::window) needs a cache with the same window: it forgets what no later row attends
    /// to, and alone limits the attention of these rows.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// As [`MultiHeadAttention::forward_cached`].
    pub fn forward_cached(
        &self,
        rows: Tensor<3>,
        new: NewRows,
        cache: &mut KeyValueCache,
    ) -> Tensor<3> {
        let rows = self.attention_residual.forward(rows, |rows| {
            let attention = &self.attention;
            attention.forward_cached(rows.clone(), rows.clone(), rows, new, cache, Mask::none())
        });
        self.after_attention(rows)
    }

    /// This layer with `bias` on its scores. Cloned parameters remain the same parameters, so gradients reach them.
    pub(crate) fn biased(
        &self,
        bias: &RelativePositionBias,
    ) -> TransformerEncoderLayer<Biased<S, RelativePositionBias>> {
        TransformerEncoderLayer {
            attention: biased(&self.attention, bias),
            attention_residual: self.attention_residual.clone(),
            feed_forward: self.feed_forward.clone(),
            feed_forward_residual: self.feed_forward_residual.clone(),
            window: self.window,
        }
    }

    fn after_attention(&self, rows: Tensor<3>) -> Tensor<3> {
        let (network, residual) = (&self.feed_forward, &self.feed_forward_residual);
        residual.forward(rows, |rows| network.forward(rows))
    }
}

/// These heads with `bias` on their scores.
pub(crate) fn biased<S: ScoringFunction>(
    attention: &MultiHeadAttention<S>,
    bias: &RelativePositionBias,
) -> MultiHeadAttention<Biased<S, RelativePositionBias>> {
    let attention = attention.clone();
    attention.map_score(|score| Biased::new(score, bias.clone()))
}

/// The options, with a mask that limits attention to the last `window` rows.
pub(crate) fn within(window: Option<usize>, mut options: AttentionOptions) -> AttentionOptions {
    if let Some(window) = window {
        assert!(
            window > 0,
            "TransformerLayer: window expected at least 1, the row itself, got 0"
        );
        options.mask &= Mask::window(window - 1, usize::MAX);
    }
    options
}
