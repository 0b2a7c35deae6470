//! Burn's encoder.

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
    TransformerEncoderConfig,
    TransformerEncoder,
    TransformerEncoderLayer,
    ""
);

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

    /// Sets the mask of rows, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, rows]`
    pub fn mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.masks.pad = Some(mask_pad);
        self
    }

    /// Sets the mask of pairs, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, rows, rows]`
    pub fn mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.masks.attn = Some(mask_attn);
        self
    }

    /// Sets a mask of this library, combined with the boolean ones; Burn has no such method.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.masks.own = mask;
        self
    }
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

    /// [`forward`](Self::forward) on all rows so far, which computes only the rows that are new since the last call
    /// with `cache`. With a causal mask the results are the same. For inference.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), or if there is no new row, or the cache has another number of layers.
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerEncoderInput,
        cache: &mut AutoregressiveCache,
    ) -> Tensor<3> {
        let mask = self.mask(&input);
        let layers = self.layers.iter().zip(cache.layers(self.layers.len()));
        layers.fold(input.tensor, |rows, (layer, cache)| {
            layer.run(rows, mask.clone(), Some(cache))
        })
    }

    fn mask(&self, input: &TransformerEncoderInput) -> Mask {
        let [batch, rows, _] = input.tensor.dims();
        let scores = [batch, self.n_heads, rows, rows];
        input.masks.resolved(scores, &input.tensor.device())
    }
}

/// Burn's `TransformerEncoderLayer`.
#[derive(Module, Debug)]
pub struct TransformerEncoderLayer {
    /// The attention of the rows to each other.
    pub mha: MultiHeadAttention,
    /// The feed-forward network.
    pub pwff: PositionWiseFeedForward,
    /// The normalization of the feed-forward network's input, in either order.
    pub norm_1: Norm,
    /// The normalization before attention, or after the feed-forward network.
    pub norm_2: Norm,
    /// Dropout on the output of a sublayer.
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
        Self {
            mha: config.attention(device),
            norm_1: config.norm(device),
            norm_2: config.norm(device),
            pwff: config.feed_forward(device),
            dropout: config.dropout(),
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

    /// [`forward`](Self::forward) with a cache; see [`TransformerEncoder::forward_autoregressive_inference`].
    ///
    /// # Panics
    /// If the shapes do not fit together, or there is no new row.
    pub fn forward_autoregressive_inference(
        &self,
        input: Tensor<3>,
        mask_pad: Option<Tensor<2, Bool>>,
        mask_attn: Option<Tensor<3, Bool>>,
        cache: &mut LayerAutoregressiveCache,
    ) -> Tensor<3> {
        self.run(input, both(mask_pad, mask_attn), Some(cache))
    }

    fn run(
        &self,
        rows: Tensor<3>,
        mask: Mask,
        cache: Option<&mut LayerAutoregressiveCache>,
    ) -> Tensor<3> {
        let Parts {
            attention,
            feed_forward: of_feed_forward,
            norms: [of_norm_1, of_norm_2, _],
            ..
        } = cache.into();
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
            attend(&self.mha, MhaInput::self_attn(rows).mask(mask), attention)
        });
        residual(last).forward(rows, of_last, |rows| {
            known_or(of_feed_forward, rows, |rows| feed_forward(&self.pwff, rows))
        })
    }
}

/// One mask from both kinds.
fn both(pad: Option<Tensor<2, Bool>>, attn: Option<Tensor<3, Bool>>) -> Mask {
    let own = Mask::none();
    Masks { pad, attn, own }.joined()
}
