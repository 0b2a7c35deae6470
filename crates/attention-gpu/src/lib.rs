//! What the kernels of a GPU share; an operation's `gpu.rs` puts it to use.
//!
//! Written in CubeCL, for any device that it reaches: no plane operations, no atomics, no literal infinity or NaN, no
//! function of the platform whose precision is not promised, barriers only where all units come by, shared memory
//! within what WebGPU promises. What is stored is of the tensors' type, what is computed f32. The order of sums is
//! fixed, so results are the same every time; but the gradient of a bias that heads share is summed by Burn.
#![allow(
    clippy::collapsible_if,
    clippy::manual_range_contains,
    reason = "the language of kernels has no ranges, and decides on constants first"
)]

mod additive_gradient;
mod backward;
mod backward_keys;
mod backward_queries;
mod forward;
mod gradient;
mod launch;
mod mask;
mod math;
mod pairs;
mod parts;
mod philox;
mod problem;
mod score;
mod softmax;
mod tensors;
mod tile;
mod tiling;

pub use backward::{KeyGradients, ProblemGradients};
pub use launch::{Problem, runs_on};
pub use mask::DeviceMask;
pub use pairs::Form;
pub use softmax::{masked_softmax, masked_softmax_backward};
pub use tensors::{cast, contiguous, largest_buffer};
