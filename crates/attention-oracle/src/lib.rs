#![doc = include_str!("../README.md")]
#![allow(
    clippy::needless_range_loop,
    reason = "a loop for each axis, as the formulas are written"
)]

mod activation;
mod attention;
mod cross_entropy;
mod differences;
mod linear;
mod modifiers;
mod normalization;
pub mod normalizers;
mod pairs;
mod real;
mod recurrent;
mod rotation;
mod score;
mod softmax;
mod table;

pub use activation::{Activation, activate, activate_backward};
pub use attention::{Attention, AttentionGradients, AttentionOutputs};
pub use cross_entropy::CrossEntropy;
pub use differences::differences;
pub use linear::{linear, linear_backward};
pub use modifiers::{Bias, Modifiers};
pub use normalization::Normalization;
pub use pairs::{Axes, Pair, Pairs};
pub use real::Real;
pub use recurrent::{Cell, Recurrent, RecurrentGradients};
pub use rotation::Rotation;
pub use score::Score;
pub use softmax::{softmax, softmax_backward, weighted_sum, weighted_sum_backward};
pub use table::{select_rows, select_rows_backward};
