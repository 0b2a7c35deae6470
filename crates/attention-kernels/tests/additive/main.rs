//! The additive kernels against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod attention;
mod case;
mod differences;
mod masks;
#[path = "../support/modifiers.rs"]
mod modifiers;
mod oracle;
#[path = "../support/owned_mask.rs"]
mod owned_mask;
mod precision;
mod ranges;
mod run;
mod threads;
