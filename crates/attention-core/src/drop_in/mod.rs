//! Burn's multi-head attention in the kernels of this library, with the names and signatures of `burn::nn::attention`,
//! so that one import changes. (The names of `burn::nn::transformer` are in `attention_transformers::burn_nn`.)
//!
//! ```
//! // Before: use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig, ..};
//! use attention_core::drop_in::{
//!     MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask,
//! };
//! use burn::prelude::*;
//!
//! let device = Device::flex();
//! let attention: MultiHeadAttention = MultiHeadAttentionConfig::new(16, 4).with_dropout(0.1).init(&device);
//! let rows = Tensor::<3>::ones([2, 5, 16], &device);
//! let mask = generate_autoregressive_mask(2, 5, &device);
//! let output = attention.forward(MhaInput::self_attn(rows).mask_attn(mask));
//! assert_eq!(output.context.dims(), [2, 5, 16]);
//! assert_eq!(output.weights.dims(), [2, 4, 5, 5]);
//! ```
//!
//! Records and configuration files are Burn's, to read and to write; [`MultiHeadAttention::from`] converts an existing
//! module of Burn's. Two more methods offer what Burn's signatures cannot: [`MultiHeadAttention::context`] computes no
//! weights, so that memory grows with queries + keys, and [`MhaInput::mask`] takes a [`Mask`](crate::Mask), whose
//! intervals say what need not be computed. For all that the library's own module can do, convert by
//! `attention_core::MultiHeadAttention::from(attention)`.
//!
//! Deliberate differences (`docs/differences.md` in the repository compares PyTorch, too):
//!
//! | | Burn 0.22.1 | here |
//! | --- | --- | --- |
//! | a masked pair | has the score `min_float` | has no score; its weight is 0 |
//! | a query whose keys are all masked | has equal weights for all keys | has weights and a context of 0 |
//! | NaN in a masked key or value | spreads: `0 * NaN` | changes no bit |
//! | returned weights in training | after dropout | before dropout |
//! | scores in a model of half precision | in half precision | in f32 |
//! | a step with [`MhaCache`] | takes one more row | takes any number of new rows |

mod cache;
mod input;
mod multi_head_attention;

pub use cache::MhaCache;
// For `attention_transformers::burn_nn`.
#[doc(hidden)]
pub use cache::Cached;
pub use input::MhaInput;
pub use multi_head_attention::{MultiHeadAttention, MultiHeadAttentionConfig};

pub use burn::nn::attention::{
    GeneratePaddingMask, MhaOutput, SeqLengthOption, generate_autoregressive_mask,
    generate_padding_mask,
};
