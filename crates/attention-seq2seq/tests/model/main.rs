//! The model: against PyTorch, under padding, in greedy search, in training.
#![allow(clippy::unwrap_used)]

mod encoder;
mod forward;
mod greedy;
mod models;
#[path = "../support/mod.rs"]
mod support;
mod training;
