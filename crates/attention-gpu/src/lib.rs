#![doc = include_str!("../README.md")]
#![allow(
    clippy::collapsible_if,
    clippy::manual_range_contains,
    reason = "the language of kernels has no ranges, and decides on constants first"
)]

// Public: what goes in and comes out.
mod device;
mod dropout;
mod inputs;
mod mask;
mod modifiers;
mod tensors;

// Which tiling a kernel runs in.
#[cfg(feature = "autotune")]
mod autotune;
mod choice;
#[cfg(feature = "autotune")]
mod trials;

// What kernels are made of, from the bottom up.
mod math;
mod operands;
mod rows;
mod tiling;

mod score_gradients;
mod score_tile;
mod splits;
mod tile;

// The kernels.
mod additive_gradient;
mod backward;
mod backward_bias;
mod backward_keys;
mod backward_queries;
mod backward_relative_bias;
mod deltas;
mod forward;
mod scores;
mod sinks;
mod softmax;

#[cfg(test)]
mod test_tensors;

pub use device::{largest_buffer, runs_on};
pub use dropout::Dropout;
pub use inputs::{AdditiveScoreInputs, AttentionInputs, AttentionOutputs, Score};
pub use mask::DeviceMask;
pub use modifiers::ScoreModifiers;
pub use tensors::{cast, contiguous};

pub use backward::{AttentionGradients, Wanted};
#[doc(hidden)]
pub use choice::force_tiling;
pub use softmax::{masked_softmax, masked_softmax_backward};
