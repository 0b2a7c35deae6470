//! Panics as values.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message with which `call` panics.
///
/// # Panics
/// If `call` returns.
pub fn panic_message<T>(call: impl FnOnce() -> T) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("expected a panic");
    };
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(message) => message.to_string(),
            Err(_) => panic!("a panic without a message"),
        },
    }
}
