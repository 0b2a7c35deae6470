//! Variants of the additive score that a benchmark leaves out, to measure the gain of each. Without them, results are
//! as accurate or more so.

use std::sync::atomic::{AtomicBool, Ordering};

static NEAR_TANH: AtomicBool = AtomicBool::new(true);
static BOUNDED_TANH: AtomicBool = AtomicBool::new(true);
static QUOTIENTS: AtomicBool = AtomicBool::new(true);

/// Whether near elements have an evaluation of their own, as by default. Without it they are bounded like elements
/// farther from 0, which changes no bit.
pub fn set_near_tanh(has: bool) {
    NEAR_TANH.store(has, Ordering::Relaxed);
}

/// Whether elements that are not near are evaluated from bounded exponentials, as by default. Without this, they are
/// evaluated from the sum of query and key.
pub fn set_bounded_tanh(has: bool) {
    BOUNDED_TANH.store(has, Ordering::Relaxed);
}

/// Whether two hidden units share a division if the weights are small, as by default. Without this, each unit has its
/// own division, as for large weights.
pub fn set_quotients(has: bool) {
    QUOTIENTS.store(has, Ordering::Relaxed);
}

pub(crate) fn has_near_tanh() -> bool {
    NEAR_TANH.load(Ordering::Relaxed)
}

pub(crate) fn has_bounded_tanh() -> bool {
    BOUNDED_TANH.load(Ordering::Relaxed)
}

pub(crate) fn has_quotients() -> bool {
    QUOTIENTS.load(Ordering::Relaxed)
}
