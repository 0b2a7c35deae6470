//! Buffers that tasks use again.

use std::sync::{Mutex, PoisonError};

/// As many `T` as tasks ever ran at once.
///
/// Not one per thread: a thread that waits for its inner tasks may start another outer one meanwhile.
#[derive(Debug, Default)]
pub(super) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Lends a `T` as the last borrower left it.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = lock().pop();
        let mut taken = taken.unwrap_or_default();
        let result = f(&mut taken);
        lock().push(taken);
        result
    }
}

/// Cuts a slice into `count` equal parts, which may be empty.
pub(crate) fn equal_parts<T>(slice: &mut [T], count: usize) -> Vec<&mut [T]> {
    let size = slice.len() / count.max(1);
    let mut rest = slice;
    (0..count)
        .map(|_| rest.split_off_mut(..size).unwrap_or_default())
        .collect()
}

/// Cuts a slice into parts of the given sizes.
pub(super) fn parts<T>(slice: &mut [T], sizes: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut rest = slice;
    sizes
        .map(|size| rest.split_off_mut(..size).unwrap_or_default())
        .collect()
}
