//! The check that users run on their own devices passes on those of the tests, and notices what is wrong.

use attention_core::{Direction, SelfCheck, SelfCheckReport, self_check};
use attention_tests::device;

#[test]
fn every_device_passes() {
    device::each(|device| {
        let report = self_check(device);
        assert!(report.passed(), "{report}");
        // Four operations in nine cases, two recurrent layers in three, forward and backward.
        assert_eq!(report.checks.len(), 2 * (4 * 9 + 2 * 3));
    });
}

#[test]
fn an_error_beyond_what_is_allowed_or_nan_is_a_failure() {
    let check = |error| SelfCheck {
        operation: "additive attention",
        case: "causal mask",
        direction: Direction::Backward,
        error,
        tolerance: 1e-5,
        time: std::time::Duration::from_millis(3),
    };
    assert!(check(1e-5).passed());
    let report = SelfCheckReport {
        checks: vec![check(1e-6), check(2e-5), check(f64::NAN)],
    };
    assert!(!report.passed());
    let text = report.to_string();
    assert!(text.ends_with("2 of 3 checks FAILED"), "{text}");
    assert_eq!(text.matches("causal mask").count(), 3, "{text}");
}
