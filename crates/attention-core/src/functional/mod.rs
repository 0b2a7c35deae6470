//! Attention and its parts as functions on tensors: what the modules of this crate call, and yours can.
//!
//! Each function checks shapes, types and devices, handles empty axes, resolves the mask, and runs the backend's
//! kernel, if there is one, or else the composed definition. Axes are `[batch, heads, queries, keys]`.
//!
//! ```
//! use attention_core::functional::{AttentionOptions, dot_product_attention};
//! use burn::tensor::{Device, Tensor};
//!
//! let device = Device::flex();
//! let rows = |number| Tensor::<4>::ones([2, 3, number, 4], &device);
//! let options = AttentionOptions { scale: Some(0.5), ..Default::default() };
//! let context = dot_product_attention(rows(5), rows(7), rows(7), &options);
//! assert_eq!(context.dims(), [2, 3, 5, 4]);
//! ```

mod attention;
mod extra_keys;
mod fused;
mod key_heads;
mod keys_and_values;
mod location_score;
mod modifiers;
mod options;
mod padding;
mod pairwise;
mod rotate;
mod score;
mod score_mod;
mod shared;
mod sizes;
mod weights;

pub use attention::{
    AttentionSteps, additive_attention, additive_attention_steps, dot_product_attention,
    dot_product_attention_steps, pairwise_attention,
};
pub use attention_kernels::{RowOfScores, ScoreMod, VectorMod};
pub use options::AttentionOptions;
pub use pairwise::{PairwiseFormula, PairwiseKernel, PairwiseTerm, Real, Simd};
pub use rotate::rotate;
pub use score::{additive_score, dot_product_score, pairwise_score};
pub use weights::{masked_softmax, weight_of_no_key, weighted_sum};
// Public only for the tests of this repository.
#[doc(hidden)]
pub use padding::fill_padding;

pub(crate) use extra_keys::{extra_keys_last, with_extra_keys};
pub(crate) use fused::{FusedScore, attend, pack_additive_keys};
pub(crate) use key_heads::{per_head, repeat_key_heads};
pub(crate) use keys_and_values::{KeysAndValues, PreparedKeys, without_padding};
pub(crate) use location_score::location_score;
pub(crate) use modifiers::{along_diagonals, modify, softmax_with_sinks, sum_of_biases};
pub(crate) use padding::{clear_padding, fill_keyless, fill_masked};
pub(crate) use score::default_scale;
pub(crate) use shared::SharedTensor;
pub(crate) use sizes::{Sizes, assert_a_value_for_each_key, assert_equal_batches};
pub(crate) use weights::{drop_weights, step_context};
