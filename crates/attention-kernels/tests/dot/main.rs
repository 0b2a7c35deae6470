//! The dot-product kernels against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod case;
mod differences;
mod masked;
mod masks;
mod oracle;
#[path = "../support/owned_mask.rs"]
mod owned_mask;
mod precision;
mod reach;
mod run;
mod sizes;
mod threads;
