//! Panics as values.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message with which `call` panics.
///
/// # Panics
/// If `call` returns.
pub fn panic_message<T>(call: impl FnOnce() -> T) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("expected a panic");
    };
    let message = message(&*payload);
    message.expect("a panic with a message").to_owned()
}

/// The message of a panic, where it has one.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    formatted.or_else(|| payload.downcast_ref::<&'static str>().copied())
}
