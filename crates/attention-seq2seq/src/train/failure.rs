//! The failure of a device.

use crate::error::Error;

/// The device could not compute what it was asked.
pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    let found = error.to_string().replace('\n', " ");
    Error::config("the device", "to compute a step of training", found)
}
