#![doc = include_str!("../README.md")]
#![cfg_attr(feature = "ndarray", allow(deprecated))]
#![cfg_attr(
    not(all(feature = "autodiff", feature = "flex")),
    allow(
        dead_code,
        reason = "kernels are for the CPU, their gradients for autodiff, half precision for flex"
    )
)]
#![cfg_attr(
    not(any(feature = "flex", feature = "ndarray", feature = "cubecl-backend")),
    allow(unused_variables, reason = "without a backend nothing is dispatched")
)]

mod attention;
mod cache;
mod device_limits;
pub mod drop_in;
pub mod functional;
pub mod mask;
mod memory;
mod multi_head_attention;
pub mod normalizer;
mod ops;
mod owner;
// For the layers of `attention-transformers`.
#[doc(hidden)]
pub mod padding;
mod parameter;
pub mod position;
mod rank;
pub mod score;
pub mod stateful;

// The names that most programs need, in the order of the pipeline: score, mask, normalizer, weighted sum. The others
// are in the modules above.
pub use score::{AdditiveScore, DotProductScore, ScoringFunction};

pub use mask::Mask;

pub use functional::{AttentionOptions, masked_softmax};
pub use normalizer::Normalizer;

pub use attention::{
    AdditiveAttention, AdditiveAttentionConfig, Attention, AttentionOutput, DotProductAttention,
    DotProductAttentionConfig, ExtraKeys,
};
pub use cache::{CachedKeys, KeyValueCache, NewRows};
pub use memory::Memory;
pub use multi_head_attention::{
    MultiHeadAttention, MultiHeadAttentionConfig, MultiHeadAttentionOutput,
};

/// Recurrent and linear layers in fused kernels, re-exported to save a dependency.
pub use burn_fused_layers;

/// The operations of attention as a Burn backend extension, for backends that are not Burn's own.
///
/// [`AttentionOps`](backend::AttentionOps) is implemented for all backends whose feature is on. Another one takes part
/// with
///
/// ```text
/// impl LayerBackend for MyBackend {}
/// impl LayerOps for MyBackend {}
/// impl AttentionBackend for MyBackend {}
/// impl AttentionOps for MyBackend {}
/// ```
///
/// Every operation is then composed of Burn's, and differentiated with them. To add a kernel, override its method of
/// `AttentionOps`, which gets all tensors and options of the operation as one struct with a resolved mask. Such a
/// method runs without autodiff; in training the operation stays composed, because this crate knows the gradients of
/// its own backends' kernels only.
pub mod backend {
    pub use crate::device_limits::{DeviceLimits, device_limits};
    pub use crate::ops::inputs::*;
    pub use crate::ops::{
        AttentionBackend, AttentionOps, DeviceMask, HostMask, Intervals, Keep, OPERATIONS,
        ResolvedMask, ScoreModifiers, SharedGradients,
    };
    pub use burn_fused_layers::backend::{GradientSlot, LayerBackend, LayerOps, OptionalTensor};
}
