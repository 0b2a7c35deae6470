//! `seq2seq devices`.

use tempfile::tempdir;

use crate::program::{fail, succeed};

#[test]
fn devices_are_listed() {
    let folder = tempdir().expect("a folder for the test");
    let listed = succeed(folder.path(), "devices");
    assert!(listed.lines().any(|line| line == "flex"), "{listed}");
}

#[cfg(feature = "check")]
#[test]
fn a_device_is_checked() {
    let folder = tempdir().expect("a folder for the test");
    let checked = succeed(folder.path(), "devices --device flex --check");
    let line = "additive attention     causal mask";
    assert!(checked.contains(line), "{checked}");
    assert!(checked.trim_end().ends_with("checks passed"), "{checked}");
}

#[cfg(not(feature = "check"))]
#[test]
fn a_build_that_cannot_check_says_so() {
    let folder = tempdir().expect("a folder for the test");
    let expected = "expected a program that is built with the feature check";
    fail(folder.path(), "devices --check", expected);
}

#[cfg(not(feature = "serve"))]
#[test]
fn a_build_that_cannot_serve_says_so() {
    let folder = tempdir().expect("a folder for the test");
    let expected = "expected a program that is built with the feature serve";
    fail(folder.path(), "serve --listen 127.0.0.1:0", expected);
}

#[test]
fn an_unknown_device_is_an_error() {
    let folder = tempdir().expect("a folder for the test");
    fail(
        folder.path(),
        "devices --device tpu",
        "unknown device \"tpu\"",
    );
}
