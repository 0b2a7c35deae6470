//! Calls on a number of threads, and calls that must be refused.

#![allow(dead_code, reason = "each test uses a part")]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// On this number of threads.
pub(crate) fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(run)
}

/// The call panics, and its message has `expected` in it.
#[track_caller]
pub(crate) fn refuses<T>(expected: &str, call: impl FnOnce() -> T) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("no panic that says `{expected}`");
    };
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    let message = formatted.or_else(|| payload.downcast_ref::<&str>().copied());
    let message = message.unwrap();
    assert!(
        message.contains(expected),
        "`{message}` does not say `{expected}`"
    );
}
