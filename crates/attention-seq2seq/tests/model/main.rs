//! The model: against PyTorch, under padding, in greedy and beam search, beyond the width of a kernel, in training.
#![allow(clippy::unwrap_used)]

mod beam;
mod encoder;
mod forward;
mod greedy;
mod kernel;
mod models;
#[path = "../support/mod.rs"]
mod support;
mod training;
mod transformer;
