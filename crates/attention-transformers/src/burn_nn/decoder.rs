//! Burn's decoder.

use attention_core::Mask;
use attention_core::drop_in::{MhaInput, MultiHeadAttention};
use burn::config::Config;
use burn::module::Module;
use burn::nn::transformer::PositionWiseFeedForward;
use burn::nn::{Dropout, Initializer};
use burn::tensor::{Bool, Device, Tensor};

use super::stack::{AutoregressiveCache, LayerAutoregressiveCache, Parts, stack};
use super::sublayers::{Masks, Residual, attend, feed_forward, known_or};
use crate::norm::Norm;

stack!(
    TransformerDecoderConfig,
    TransformerDecoder,
    TransformerDecoderLayer,
    ", which projects a memory once,"
);

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

    /// Sets the mask of the memory's rows, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, keys]`
    pub fn memory_mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.memory_masks.pad = Some(mask_pad);
        self
    }

    /// Sets the mask of pairs of rows and memory rows, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, rows, keys]`
    pub fn memory_mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.memory_masks.attn = Some(mask_attn);
        self
    }

    /// Sets the mask of rows, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, rows]`
    pub fn target_mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.target_masks.pad = Some(mask_pad);
        self
    }

    /// Sets the mask of pairs of rows, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, rows, rows]`
    pub fn target_mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.target_masks.attn = Some(mask_attn);
        self
    }

    /// Sets a mask of this library for the attention of the rows to each other, combined with the boolean ones; Burn
    /// has no such method.
    pub fn target_mask(mut self, mask: Mask) -> Self {
        self.target_masks.own = mask;
        self
    }

    /// Sets a mask of this library for the attention to the memory, combined with the boolean ones; Burn has no such
    /// method.
    pub fn memory_mask(mut self, mask: Mask) -> Self {
        self.memory_masks.own = mask;
        self
    }
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
        let output = layers.fold(input, |input, layer| layer.run(input, None));
        output.target
    }

    /// [`forward`](Self::forward) on all rows so far, which computes only the rows that are new since the last call
    /// with `cache`. With a causal mask the results are the same. The memory of the first call is kept. For inference.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), or if there is no new row, or the cache has another number of layers.
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerDecoderInput,
        cache: &mut AutoregressiveCache,
    ) -> Tensor<3> {
        let input = self.with_resolved_masks(input);
        let layers = self.layers.iter().zip(cache.layers(self.layers.len()));
        let output = layers.fold(input, |input, (layer, cache)| layer.run(input, Some(cache)));
        output.target
    }

    /// The input with masks resolved once for all layers.
    fn with_resolved_masks(&self, mut input: TransformerDecoderInput) -> TransformerDecoderInput {
        let [batch, rows, _] = input.target.dims();
        let [_, keys, _] = input.memory.dims();
        let device = input.target.device();
        let (target, memory) = (&mut input.target_masks, &mut input.memory_masks);
        for (masks, keys) in [(target, rows), (memory, keys)] {
            let own = masks.resolved([batch, self.n_heads, rows, keys], &device);
            *masks = Masks::default();
            masks.own = own;
        }
        input
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
    /// Dropout on the output of a sublayer.
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
        Self {
            self_attn: config.attention(device),
            cross_attn: config.attention(device),
            norm_1: config.norm(device),
            norm_2: config.norm(device),
            norm_3: config.norm(device),
            pwff: config.feed_forward(device),
            dropout: config.dropout(),
            norm_first: config.norm_first,
        }
    }

    /// The input, with its target replaced by the rows after the layer.
    ///
    /// # Panics
    /// If the shapes or the masks do not fit together.
    pub fn forward(&self, input: TransformerDecoderInput) -> TransformerDecoderInput {
        self.run(input, None)
    }

    /// [`forward`](Self::forward) with a cache; see [`TransformerDecoder::forward_autoregressive_inference`].
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if there is no new row.
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerDecoderInput,
        cache: &mut LayerAutoregressiveCache,
    ) -> TransformerDecoderInput {
        self.run(input, Some(cache))
    }

    fn run(
        &self,
        input: TransformerDecoderInput,
        cache: Option<&mut LayerAutoregressiveCache>,
    ) -> TransformerDecoderInput {
        let Parts {
            attention,
            cross_attention,
            feed_forward: of_feed_forward,
            norms: [of_norm_1, of_norm_2, of_norm_3],
        } = cache.into();
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
            attend(&self.self_attn, input, attention)
        });
        let rows = residual(second).forward(rows, of_second, |rows| {
            let memory = input.memory.clone();
            let mask = input.memory_masks.joined();
            let input = MhaInput::new(rows, memory.clone(), memory).mask(mask);
            attend(&self.cross_attn, input, cross_attention)
        });
        let target = residual(last).forward(rows, of_last, |rows| {
            known_or(of_feed_forward, rows, |rows| feed_forward(&self.pwff, rows))
        });
        TransformerDecoderInput { target, ..input }
    }
}
