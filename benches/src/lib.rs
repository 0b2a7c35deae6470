//! What the benches share. A bench sets up contestants, lets [`contest`](contest::contest) time them side by side, and
//! prints what came out.
//!
//! Figures are comparable within one run only.

#![cfg_attr(
    feature = "ndarray",
    allow(deprecated, reason = "Burn deprecates `Device::ndarray`")
)]

pub mod composed;
pub mod contest;
pub mod machine;
pub mod memory;
pub mod options;
pub mod report;
pub mod rivals;
pub mod tensors;
