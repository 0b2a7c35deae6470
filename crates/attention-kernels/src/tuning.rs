//! Forms of the additive score that a bench leaves out, to see what each buys. Results stay as accurate as without, or
//! become more so.

use std::sync::atomic::{AtomicBool, Ordering};

static NEAR_TANH: AtomicBool = AtomicBool::new(true);
static BOUNDED_TANH: AtomicBool = AtomicBool::new(true);
static QUOTIENTS: AtomicBool = AtomicBool::new(true);

/// Whether near elements have an evaluation of their own, as they have by default. Without it they are bounded as
/// elements farther out are, which changes no bit.
pub fn set_near_tanh(has: bool) {
    NEAR_TANH.store(has, Ordering::Relaxed);
}

/// Whether elements that are not near are evaluated from bounded exponentials, as they are by default. Without it they
/// are evaluated from their sums.
pub fn set_bounded_tanh(has: bool) {
    BOUNDED_TANH.store(has, Ordering::Relaxed);
}

/// Whether two hidden units share a division where the weights are small, as they do by default. Without it each unit
/// has a division of its own, as where weights are large.
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
