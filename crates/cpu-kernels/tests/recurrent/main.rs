//! The recurrent layers against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod absent;
mod case;
mod differences;
mod gates;
mod oracle;
mod padding;
mod precision;
#[path = "../support/random.rs"]
mod random;
mod sizes;
mod threads;
