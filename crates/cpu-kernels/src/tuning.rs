//! Choices that a bench leaves out, to see what each buys. They change no bit of a result.

use std::sync::atomic::{AtomicBool, Ordering};

static SPINS: AtomicBool = AtomicBool::new(true);
static KEEPS_BUFFERS: AtomicBool = AtomicBool::new(true);

/// Whether threads look for more work for a while before they sleep. They do by default.
pub fn set_spins(spins: bool) {
    SPINS.store(spins, Ordering::Relaxed);
}

/// Whether the memory of a [`Buffer`](crate::Buffer) is kept for a later one. It is by default.
pub fn set_keeps_buffers(keeps: bool) {
    KEEPS_BUFFERS.store(keeps, Ordering::Relaxed);
}

pub(crate) fn spins() -> bool {
    SPINS.load(Ordering::Relaxed)
}

pub(crate) fn keeps_buffers() -> bool {
    KEEPS_BUFFERS.load(Ordering::Relaxed)
}
