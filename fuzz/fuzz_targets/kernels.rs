//! Masks, shapes and strides from bytes: see `check_bytes`, which `cargo test` runs too.

#![no_main]

use std::panic::{catch_unwind, resume_unwind, set_hook};
use std::sync::Mutex;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/attention-kernels/tests/properties/support/mod.rs"]
mod support;

/// The message of the last panic.
static LAST: Mutex<String> = Mutex::new(String::new());

fuzz_target!(
    init: {
        // The fuzzer's own hook ends the process at any panic, but shapes that do not fit must panic, and that is
        // caught.
        set_hook(Box::new(|panic| {
            if let Ok(mut last) = LAST.lock() {
                *last = panic.to_string();
            }
        }));
    },
    |bytes: &[u8]| {
        if let Err(panic) = catch_unwind(|| support::check_bytes(bytes)) {
            eprintln!("{}", LAST.lock().map_or(String::new(), |last| last.clone()));
            resume_unwind(panic); // which ends the process
        }
    }
);
