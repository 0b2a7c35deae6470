//! The kernels against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod activate;
mod cross_entropy;
mod normalize;
#[path = "../support/random.rs"]
mod random;
mod recurrent;
mod table;
