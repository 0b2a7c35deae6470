//! Attention and its parts as functions on tensors: what the modules of this crate call, for a module of your own.
//!
//! Each checks shapes, types and devices, answers sizes of 0, resolves the mask, and runs the backend's kernel, or else
//! the definition. Axes are `[batch, heads, queries, keys]`.
//!
//! ```
//! use attention_core::functional::dot_product_attention;
//! use attention_core::{Mask, Memory};
//! use burn::tensor::{Device, Tensor};
//!
//! let device = Device::flex();
//! let rows = |number| Tensor::<4>::ones([2, 3, number, 4], &device);
//! let memory = Memory::of_projected(rows(7), rows(7), Mask::none());
//! let context = dot_product_attention(rows(5), &memory, 0.5, None, 0.0);
//! assert_eq!(context.dims(), [2, 3, 5, 4]);
//! ```

mod attention;
mod key_heads;
mod padding;
mod project;
mod rotate;
mod score;
mod shared;
mod weights;

pub use attention::{additive_attention, dot_product_attention};
pub use rotate::rotate;
pub use score::{additive_score, dot_product_score};
pub use weights::{masked_softmax, weighted_sum};
// Public for the tests of this repository alone.
#[doc(hidden)]
pub use padding::fill_padding;

pub(crate) use attention::pack_additive_keys;
pub(crate) use key_heads::repeat_key_heads;
pub(crate) use padding::{fill_keyless, fill_masked};
pub(crate) use project::project;
pub(crate) use shared::SharedTensor;
pub(crate) use weights::drop_weights;
