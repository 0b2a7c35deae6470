//! Buffers that tasks reuse.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many `T` as tasks ever used at once.
///
/// Not one per thread: a thread that waits for its inner tasks may meanwhile start another outer task.
#[derive(Debug, Default)]
pub(super) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// A `T` as the last task left it.
    pub(super) fn take(&self) -> T {
        let taken = self.lock().pop();
        taken.unwrap_or_default()
    }

    /// Keeps a `T` for the next task.
    pub(super) fn put(&self, item: T) {
        self.lock().push(item);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
