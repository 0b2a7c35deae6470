//! `seq2seq devices`.

use tempfile::tempdir;

use crate::program::{fail, succeed};

#[test]
fn devices_are_listed_and_checked() {
    let folder = tempdir().expect("a folder for the test");
    let listed = succeed(folder.path(), &["devices"]);
    assert!(listed.lines().any(|line| line == "flex"), "{listed}");
    let checked = succeed(folder.path(), &["devices", "--device", "flex", "--check"]);
    assert!(
        checked.contains("additive attention     causal mask"),
        "{checked}"
    );
    assert!(checked.trim_end().ends_with("checks passed"), "{checked}");
}

#[test]
fn an_unknown_device_is_an_error() {
    let folder = tempdir().expect("a folder for the test");
    fail(
        folder.path(),
        &["devices", "--device", "tpu"],
        "unknown device \"tpu\"",
    );
}
