//! Bytes as files and names: see `check_bytes`, which `cargo test` runs too.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/attention-seq2seq/tests/readers/check.rs"]
mod check;

/// A folder for the files that are read.
static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    check::check_bytes(bytes, folder.path());
});
