//! The kernels of attention against plain loops in `f64`, and which of their gradients are wanted. One program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod additive;
#[path = "../../../cpu-kernels/tests/support/calls.rs"]
mod calls;
mod dot;
mod location;
mod modifiers;
mod oracle;
#[path = "../support/owned_mask.rs"]
mod owned_mask;
#[path = "../../../cpu-kernels/tests/support/random.rs"]
mod random;
mod run;
mod wanted;
