//! Panics as values.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message with which `call` panics.
///
/// # Panics
/// If `call` returns.
#[track_caller]
pub fn panic_message<T>(call: impl FnOnce() -> T) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("expected a panic");
    };
    message(&*payload)
        .expect("a panic with a message")
        .to_owned()
}

/// The message of a panic, where it has one.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    formatted.or_else(|| payload.downcast_ref::<&'static str>().copied())
}

/// The parts of a message: one or several.
pub trait Parts {
    /// Each part.
    fn parts(&self) -> Vec<&str>;
}

impl Parts for &str {
    fn parts(&self) -> Vec<&str> {
        vec![self]
    }
}

impl Parts for &String {
    fn parts(&self) -> Vec<&str> {
        vec![self]
    }
}

impl<const N: usize> Parts for [&str; N] {
    fn parts(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Parts for &[&str] {
    fn parts(&self) -> Vec<&str> {
        self.to_vec()
    }
}

/// The message has each part.
///
/// # Panics
/// If it has not.
#[track_caller]
pub fn assert_says(message: impl Display, expected: impl Parts) {
    let message = message.to_string();
    for part in expected.parts() {
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    }
}

/// The call panics, and its message has each part.
///
/// # Panics
/// If it returns, or says something else.
#[track_caller]
pub fn refuses<T>(expected: impl Parts, call: impl FnOnce() -> T) {
    assert_says(panic_message(call), expected);
}
