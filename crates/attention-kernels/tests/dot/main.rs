//! The dot-product kernels against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod case;
mod differences;
mod masked_cases;
mod masks;
mod misfits;
#[path = "../support/modifiers.rs"]
mod modifiers;
mod modifying;
mod non_finite;
mod oracle;
#[path = "../support/owned_mask.rs"]
mod owned_mask;
mod precision;
#[path = "../support/random.rs"]
mod random;
mod run;
mod sizes;
mod threads;
