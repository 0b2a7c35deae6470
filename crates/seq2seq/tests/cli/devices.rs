//! `seq2seq devices`.

use tempfile::tempdir;

use crate::program::{bad, command, fail, good, succeed};

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
fn an_unknown_level_or_kernel_is_an_error() {
    let folder = tempdir().expect("a folder for the test");
    #[rustfmt::skip]
    let cases = [
        ("ATTENTION_SIMD", "off", "ATTENTION_SIMD: expected one of "),
        ("ATTENTION_SIMD", "AVX2", "portable, the levels of this machine, found \"AVX2\""),
        ("ATTENTION_KERNELS", "avx2", "ATTENTION_KERNELS: expected `on`, `off`, or some of "),
    ];
    for (variable, value, message) in cases {
        let mut devices = command(folder.path(), "devices");
        let output = devices.env(variable, value).output();
        bad("devices", output.expect("a program that runs"), message);
    }
    let mut unset = command(folder.path(), "devices");
    let output = unset.env("ATTENTION_SIMD", "").output();
    good("devices", output.expect("a program that runs"));
}

#[test]
fn an_unknown_device_is_an_error() {
    let folder = tempdir().expect("a folder for the test");
    let message = "unknown device \"tpu\"";
    fail(folder.path(), "devices --device tpu", message);
}
