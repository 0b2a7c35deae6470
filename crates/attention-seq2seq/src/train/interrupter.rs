//! Requests to stop a training.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Stops a [`Training`](super::Training) from another thread; clones share one request.
#[derive(Clone, Debug, Default)]
pub struct Interrupter(Arc<AtomicBool>);

impl Interrupter {
    /// An interrupter without a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests to stop after the current step.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn should_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.should_stop() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }
}
