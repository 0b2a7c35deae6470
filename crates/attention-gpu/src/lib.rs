#![doc = include_str!("../README.md")]
#![allow(
    clippy::collapsible_if,
    clippy::manual_range_contains,
    reason = "the language of kernels has no ranges, and decides on constants first"
)]

mod backward;
mod forward;
mod host;
mod tile;

#[cfg(test)]
mod test_tensors;

pub use host::device::{largest_buffer, runs_on};
pub use host::dropout::Dropout;
pub use host::inputs::{AdditiveScoreInputs, AttentionInputs, AttentionOutputs, Score};
pub use host::mask::DeviceMask;
pub use host::modifiers::ScoreModifiers;
pub use host::tensors::{cast, contiguous};

pub use backward::{AttentionGradients, Wanted};
pub use forward::softmax::{masked_softmax, masked_softmax_backward};
#[doc(hidden)]
pub use host::choice::force_tiling;
