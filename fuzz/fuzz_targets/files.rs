//! Bytes as files of tensors, of every format: see `check_file`, which `cargo test` runs on changed files.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tensor-files/tests/formats/check.rs"]
mod check;

/// A folder for the file that is read.
static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).expect("a folder to write in");
    let _ = check::check_file(&path);
});
