//! Burn's Transformer in the kernels of this library, with the names and signatures of `burn::nn::transformer`, so that
//! one import changes.
//!
//! ```
//! // Before: use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
//! use attention_transformers::burn_nn::{TransformerEncoderConfig, TransformerEncoderInput};
//! use burn::prelude::*;
//!
//! let device = Device::flex();
//! let encoder = TransformerEncoderConfig::new(16, 32, 4, 2).init(&device);
//! let rows = Tensor::<3>::ones([2, 5, 16], &device);
//! let input = TransformerEncoderInput::new(rows);
//! assert_eq!(encoder.forward(input).dims(), [2, 5, 16]);
//! ```
//!
//! Records, configurations and files of burn-store, with any adapter, are Burn's, to read and to write. Attention
//! stores no weights; norms, GELU, ReLU and linear layers run in kernels if the device has them. The intended
//! differences are those of [attention](super#); dropout draws other numbers. With [`TransformerEncoderInput::mask`] a
//! mask may be one of this library's, whose intervals say what need not be computed.
//!
//! For any score and all else that the library's own layers can do, use [`attention_transformers`](crate).

mod decoder;
mod encoder;
mod stack;
mod sublayers;

pub use decoder::{
    TransformerDecoder, TransformerDecoderConfig, TransformerDecoderInput, TransformerDecoderLayer,
};
pub use encoder::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput, TransformerEncoderLayer,
};
pub use stack::{
    AutoregressiveCache as TransformerDecoderAutoregressiveCache,
    AutoregressiveCache as TransformerEncoderAutoregressiveCache,
    LayerAutoregressiveCache as TransformerDecoderLayerAutoregressiveCache,
    LayerAutoregressiveCache as TransformerEncoderLayerAutoregressiveCache,
};

pub use burn::nn::transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
