//! Stopping work that nobody waits for any more.

use crate::error::{Error, Result};

/// A function that is called between the steps of long work: whether to end it without a result.
#[derive(Clone, Copy)]
pub(crate) struct StopSignal<'a>(&'a dyn Fn() -> bool);

impl<'a> StopSignal<'a> {
    /// A signal that never stops work.
    pub(crate) const NEVER: Self = Self(&|| false);

    pub(crate) fn new(should_stop: &'a dyn Fn() -> bool) -> Self {
        Self(should_stop)
    }

    pub(crate) fn question(self) -> &'a dyn Fn() -> bool {
        self.0
    }

    pub(crate) fn check(self) -> Result<()> {
        if (self.0)() {
            return Err(Error::Stopped);
        }
        Ok(())
    }
}
