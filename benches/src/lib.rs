//! The tools that the benches share. A bench sets up candidates, lets [`compare`](compare::compare) time them by turns,
//! and prints the results.
//!
//! Figures are comparable within one run only.

#![cfg_attr(
    feature = "ndarray",
    allow(deprecated, reason = "Burn deprecates `Device::ndarray`")
)]

pub mod baselines;
pub mod bench;
pub mod compare;
pub mod composed;
pub mod devices;
pub mod floors;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod machine;
pub mod memory;
pub mod options;
#[cfg(feature = "gpu")]
pub mod rates;
pub mod report;
pub mod tensors;
pub mod work;
