//! The additive kernels against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod attention;
mod determinism;
mod gradients;
mod masks;
#[path = "../support/owned_mask.rs"]
mod owned_mask;
mod precision;
mod problem;
mod ranges;
