//! The check that users run on their own devices passes on the tests' devices, and notices what is wrong.

#![allow(clippy::unwrap_used)]

use attention_check::{Direction, SelfCheck, SelfCheckReport, self_check};
use attention_tests::device;
use burn::tensor::DType;

/// The operations, and how many cases each has in f32.
const OPERATIONS: [(&str, usize); 16] = [
    ("additive attention", 9 + 2 + 1),
    ("dot-product attention", 9 + 2 + 2 + 1),
    ("pairwise attention", 9),
    ("score_mod", 9),
    ("additive score", 9),
    ("dot-product score", 9),
    ("masked softmax", 9),
    ("weighted sum", 9),
    ("linear layer", 3),
    ("embedding", 2),
    ("cross-entropy", 4),
    ("activation", 5),
    ("normalization", 3),
    ("recurrent layer, GRU", 4),
    ("recurrent layer, LSTM", 4),
    ("rotation", 2),
];

#[test]
fn every_device_passes() {
    device::each(|device| {
        let report = self_check(device);
        assert!(report.passed(), "{report}");
        let half_types = [DType::F16, DType::BF16]
            .into_iter()
            .filter(|&dtype| device.supports_dtype(dtype));
        let half_types = half_types.count();
        for (operation, cases) in OPERATIONS {
            for direction in [Direction::Forward, Direction::Backward] {
                let checks = report.checks.iter();
                let checks = checks
                    .filter(|check| check.operation == operation && check.direction == direction);
                assert_eq!(checks.count(), cases + half_types, "{operation}");
            }
        }
        let cases: usize = OPERATIONS.iter().map(|(_, cases)| cases + half_types).sum();
        assert_eq!(report.checks.len(), 2 * cases);
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
