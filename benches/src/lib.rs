//! What the benches share. A bench sets up candidates, lets [`compare`](compare::compare) time them side by side, and
//! prints what came out.
//!
//! Figures are comparable within one run only.

#![cfg_attr(
    feature = "ndarray",
    allow(deprecated, reason = "Burn deprecates `Device::ndarray`")
)]

pub mod baselines;
pub mod compare;
pub mod composed;
pub mod machine;
pub mod memory;
pub mod options;
pub mod report;
pub mod tensors;
