//! Failures of a device.

use crate::error::Error;

/// The error for a computation that failed on the device.
pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    let found = error.to_string().replace('\n', " ");
    Error::config("the device", "to compute a step of training", found)
}
