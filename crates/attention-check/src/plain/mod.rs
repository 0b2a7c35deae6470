//! The operations by the formulas of a textbook: loops over slices of f64, forward and backward.
//!
//! They share nothing with what they are compared with, neither a kernel nor a tensor. Tests hold each gradient to
//! central differences of its forward pass.
#![allow(
    clippy::needless_range_loop,
    reason = "a loop for each axis, as the formulas are written"
)]

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod layers;
pub(crate) mod normalization;
pub(crate) mod recurrent;
pub(crate) mod rotation;
