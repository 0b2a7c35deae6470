//! The kernels against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod activate;
#[path = "../support/calls.rs"]
mod calls;
mod cross_entropy;
mod normalize;
#[path = "../support/random.rs"]
mod random;
mod recurrent;
mod table;
