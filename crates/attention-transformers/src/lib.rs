//! Transformers around any scoring function: layers, stacks, language models and generation.
//!
//! A layer puts [`MultiHeadAttention`](attention_core::MultiHeadAttention) and a feed-forward network into residual
//! connections. Positions are encoded by the score ([`Rotary`](attention_core::position::Rotary),
//! [`Biased`](attention_core::score::Biased)) or by the embedding. Generation uses a cache,
//! [`TransformerEncoder::forward_cached`], and [`GenerateConfig`] or [`BeamConfig`] chooses the tokens.
//!
//! | model | type |
//! | --- | --- |
//! | encoder, as BERT | [`TransformerEncoder`]; with embeddings and a head [`MaskedLanguageModel`] |
//! | language model, as GPT and Llama | [`LanguageModel`]: an encoder's layers, each row attending to those up to itself |
//! | encoder-decoder, as T5 | [`EncoderDecoder`], of [`TransformerEncoder`] and [`TransformerDecoder`] |
//!
//! ```
//! use attention_transformers::{TransformerEncoderConfig, TransformerLayerConfig};
//! use attention_core::Mask;
//! use attention_core::position::AlibiConfig;
//! use attention_core::score::{Biased, DotProductScoreConfig};
//! use burn::prelude::*;
//!
//! let device = Device::flex();
//! let layer = TransformerLayerConfig::new(12, 3, 17).with_dropout(0.1);
//! let score = |_| Biased::new(DotProductScoreConfig::new().init(), AlibiConfig::new(3).init());
//! let stack = TransformerEncoderConfig::new(layer, 2).init_with(score, &device);
//! let rows = stack.forward(Tensor::<3>::ones([2, 5, 12], &device), &Mask::causal());
//! assert_eq!(rows.dims(), [2, 5, 12]);
//! ```
//!
//! # Files of burn-store
//!
//! Adapters of burn-store depend on the type of the layer that contains a parameter. Linear layers and embeddings, also
//! in a score, are Burn's, and a [`Norm`](layer::Norm) counts as Burn's type: `BurnToPyTorchAdapter` transposes weights
//! to `[out, in]` and writes gains as `weight`, `PyTorchToBurnAdapter` reads both, `HalfPrecisionAdapter` stores them
//! in f16. Parameters for which Burn has no layer keep name, layout and type: sinks, the gains of
//! [`QkNormScore`](attention_core::score::QkNormScore) (`query` and `key`), gain, temperature and inverse width of
//! other scores, the offset of monotonic attention, the bias of a masked language model, peepholes. The names of
//! modules are this library's: `with_key_remapping` of a store changes them.
//! `HalfPrecisionAdapter::with_module("QkNormScore")` includes the parameters of that type.

pub mod burn_nn;
mod cache;
pub mod decoder;
mod decoder_layer;
mod embedding;
mod encoder;
pub mod encoder_decoder;
mod encoder_layer;
mod feed_forward;
pub mod generate;
#[cfg(feature = "pytorch")]
pub mod hub;
mod language_model;
mod layer_config;
pub mod masked_language_model;
mod norm;
pub mod position_embedding;
mod residual;
#[cfg(feature = "pytorch")]
mod state_dict;
pub mod text_encoder;
#[cfg(feature = "pytorch")]
pub mod torch;

/// The parts of a layer, and layers of both stacks.
pub mod layer {
    pub use crate::decoder_layer::TransformerDecoderLayer;
    pub use crate::encoder_layer::TransformerEncoderLayer;
    pub use crate::feed_forward::{FeedForward, FeedForwardConfig};
    pub use crate::norm::{Norm, NormConfig};
    pub use crate::residual::Residual;
}

// The names that most programs need; the others are in the modules above.
pub use feed_forward::FeedForwardActivation;
pub use layer_config::TransformerLayerConfig;
pub use residual::NormOrder;

pub use cache::TransformerCache;
pub use decoder::{TransformerDecoder, TransformerDecoderConfig};
pub use encoder::{TransformerEncoder, TransformerEncoderConfig};

pub use embedding::{TokenEmbedding, TokenEmbeddingConfig};
pub use position_embedding::{PositionEmbedding, PositionEmbeddingConfig};

pub use encoder_decoder::{EncoderDecoder, EncoderDecoderConfig};
pub use language_model::{LanguageModel, LanguageModelConfig};
pub use masked_language_model::{MaskedLanguageModel, MaskedLanguageModelConfig};
pub use text_encoder::TextEncoder;

pub use generate::{BeamConfig, GenerateConfig, Sampling};
