//! Choices that a benchmark leaves out, to measure the gain of each. They change no bit of a result.

use std::sync::atomic::{AtomicBool, Ordering};

static SPINS: AtomicBool = AtomicBool::new(true);
static KEEPS_BUFFERS: AtomicBool = AtomicBool::new(true);

/// Sets whether threads look for more work for a while before they sleep. By default they do.
pub fn set_spins(spins: bool) {
    SPINS.store(spins, Ordering::Relaxed);
}

/// Sets whether the memory of a [`Buffer`](crate::Buffer) is kept for a later one. By default it is.
pub fn set_keeps_buffers(keeps: bool) {
    KEEPS_BUFFERS.store(keeps, Ordering::Relaxed);
}

pub(crate) fn spins() -> bool {
    SPINS.load(Ordering::Relaxed)
}

pub(crate) fn keeps_buffers() -> bool {
    KEEPS_BUFFERS.load(Ordering::Relaxed)
}
