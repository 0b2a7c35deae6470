//! `seq2seq devices`.

use crate::program::{Folder, bad, command, fail, good, succeed};

#[test]
fn devices_are_listed() {
    let listed = succeed(&Folder::new(), "devices");
    assert!(listed.lines().any(|line| line == "flex"), "{listed}");
}

#[cfg(feature = "check")]
#[test]
fn a_device_is_checked() {
    let checked = succeed(&Folder::new(), "devices --device flex --check");
    attention_tests::assert_says(&checked, "additive attention     causal mask");
    assert!(checked.trim_end().ends_with("checks passed"), "{checked}");
}

#[cfg(not(feature = "check"))]
#[test]
fn a_build_that_cannot_check_says_so() {
    let expected = "expected a program that is built with the feature check";
    fail(&Folder::new(), "devices --check", expected);
}

#[cfg(not(feature = "serve"))]
#[test]
fn a_build_that_cannot_serve_says_so() {
    let expected = "expected a program that is built with the feature serve";
    fail(&Folder::new(), "serve --listen 127.0.0.1:0", expected);
}

#[test]
fn an_unknown_level_or_kernel_is_an_error() {
    let folder = &Folder::new();
    #[rustfmt::skip]
    let cases = [
        ("ATTENTION_SIMD", "off", "ATTENTION_SIMD: expected one of "),
        ("ATTENTION_SIMD", "AVX2", "portable, the levels of this machine, found \"AVX2\""),
        ("ATTENTION_KERNELS", "avx2", "ATTENTION_KERNELS: expected `on`, `off`, or some of "),
    ];
    for (variable, value, message) in cases {
        let mut devices = command(folder, "devices");
        let output = devices.env(variable, value).output();
        bad("devices", output.expect("a program that runs"), message);
    }
    let mut unset = command(folder, "devices");
    let output = unset.env("ATTENTION_SIMD", "").output();
    good("devices", output.expect("a program that runs"));
}

#[test]
fn an_unknown_device_is_an_error() {
    let message = "unknown device \"tpu\"";
    fail(&Folder::new(), "devices --device tpu", message);
}
