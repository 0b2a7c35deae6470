//! Comparisons. Each fails on NaN, on another shape, and on a reference that could not tell right from wrong.

use crate::{Array, Outcome};

/// Every element of `actual` lies within `tolerance` of `expected`, relative to the largest element expected.
pub fn assert_close(what: &str, actual: &Array, expected: &Array, tolerance: f64) {
    assert_eq!(actual.shape, expected.shape, "{what}: shape");
    assert!(
        expected.data.iter().all(|number| number.is_finite()),
        "{what}: the reference is not finite"
    );
    let bound = tolerance * (0.1 + expected.magnitude());
    for (at, (&a, &e)) in actual.data.iter().zip(&expected.data).enumerate() {
        // Not `>`: a NaN must fail.
        let close = (a - e).abs() <= bound;
        assert!(
            close,
            "{what}: element {at} of {:?}: {a} is not {e} within {bound:e}",
            actual.shape
        );
    }
}

/// The same shapes and bits.
pub fn assert_same(what: &str, actual: &Array, expected: &Array) {
    assert_eq!(actual.shape, expected.shape, "{what}: shape");
    for (at, (a, e)) in actual.data.iter().zip(&expected.data).enumerate() {
        assert!(
            a.to_bits() == e.to_bits(),
            "{what}: element {at} of {:?}: {a:?} is not bit for bit {e:?}",
            actual.shape
        );
    }
}

/// Nothing but zeros.
pub fn assert_zero(what: &str, actual: &Array) {
    for (at, number) in actual.data.iter().enumerate() {
        assert!(
            *number == 0.0,
            "{what}: element {at} of {:?}: {number} is not 0",
            actual.shape
        );
    }
}

/// [`assert_close`] for each result in `expected`, which must include a context that is not all zeros (or
/// nothing would tell a written buffer from an unwritten one).
pub fn assert_outcomes_close(what: &str, actual: &Outcome, expected: &Outcome, tolerance: f64) {
    assert!(
        expected["context"].magnitude() > 0.0,
        "{what}: a reference of zeros"
    );
    for (name, expected) in expected {
        assert_close(
            &format!("{what}: {name}"),
            &actual[name],
            expected,
            tolerance,
        );
    }
}

/// [`assert_same`] for each result in `expected`, which must be finite.
pub fn assert_outcomes_same(what: &str, actual: &Outcome, expected: &Outcome) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of results");
    for (name, expected) in expected {
        assert!(
            expected.data.iter().all(|number| number.is_finite()),
            "{what}: {name}: the reference is not finite"
        );
        assert_same(&format!("{what}: {name}"), &actual[name], expected);
    }
}
