//! Comparisons. Each fails on NaN, on another shape, and on a reference that could not tell right from wrong.

use std::borrow::Cow;
use std::fmt::Display;

use burn::tensor::Tensor;

use crate::{Array, Outcome};

/// Elements to compare: an array, or a tensor that is read.
pub trait Elements {
    /// The elements with their shape.
    fn elements(&self) -> Cow<'_, Array>;
}

impl Elements for &Array {
    fn elements(&self) -> Cow<'_, Array> {
        Cow::Borrowed(self)
    }
}

impl Elements for &&Array {
    fn elements(&self) -> Cow<'_, Array> {
        Cow::Borrowed(self)
    }
}

impl<const D: usize> Elements for Tensor<D> {
    fn elements(&self) -> Cow<'_, Array> {
        Cow::Owned(Array::read(self.clone()))
    }
}

/// Every element of `actual` lies within `tolerance` of `expected`, relative to the largest element expected.
pub fn assert_close(
    what: impl Display,
    actual: impl Elements,
    expected: impl Elements,
    tolerance: f64,
) {
    let (actual, expected) = (actual.elements(), expected.elements());
    assert_eq!(actual.shape, expected.shape, "{what}: shape");
    let is_finite = expected.data.iter().all(|number| number.is_finite());
    assert!(is_finite, "{what}: the reference is not finite");
    let bound = tolerance * (0.1 + expected.magnitude());
    for (at, (&a, &e)) in actual.data.iter().zip(&expected.data).enumerate() {
        // Not `>`: a NaN must fail.
        let (close, shape) = ((a - e).abs() <= bound, &actual.shape);
        let what = || format!("{what}: element {at} of {shape:?}");
        assert!(close, "{}: {a} is not {e} within {bound:e}", what());
    }
}

/// [`assert_close`] for each of some results without names.
pub fn assert_all_close(what: impl Display, actual: &[Array], expected: &[Array], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of results");
    for (at, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        assert_close(format!("{what}: {at}"), actual, expected, tolerance);
    }
}

/// The same shapes and bits.
pub fn assert_same(what: impl Display, actual: impl Elements, expected: impl Elements) {
    let (actual, expected) = (actual.elements(), expected.elements());
    assert_eq!(actual.shape, expected.shape, "{what}: shape");
    for (at, (a, e)) in actual.data.iter().zip(&expected.data).enumerate() {
        let (is_same, shape) = (a.to_bits() == e.to_bits(), &actual.shape);
        let what = || format!("{what}: element {at} of {shape:?}");
        assert!(is_same, "{}: {a:?} is not bit for bit {e:?}", what());
    }
}

/// [`assert_same`] for each of some results without names.
pub fn assert_all_same(what: impl Display, actual: &[Array], expected: &[Array]) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of results");
    for (at, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        assert_same(format!("{what}: {at}"), actual, expected);
    }
}

/// Nothing but zeros.
pub fn assert_zero(what: impl Display, actual: impl Elements) {
    assert_each(what, actual, |number| number == 0.0, "0");
}

/// Nothing but numbers.
pub fn assert_finite(what: impl Display, actual: impl Elements) {
    assert_each(what, actual, f64::is_finite, "finite");
}

fn assert_each(what: impl Display, actual: impl Elements, holds: fn(f64) -> bool, name: &str) {
    let Array { shape, data } = &*actual.elements();
    for (at, number) in data.iter().enumerate() {
        let text = || format!("{what}: element {at} of {shape:?}: {number} is not {name}");
        assert!(holds(*number), "{}", text());
    }
}

/// [`assert_close`] for each result in `expected`, which must include a context that is not all zeros (or
/// nothing would tell a written buffer from an unwritten one).
pub fn assert_outcomes_close(
    what: impl Display,
    actual: &Outcome,
    expected: &Outcome,
    tolerance: f64,
) {
    let magnitude = expected["context"].magnitude();
    assert!(magnitude > 0.0, "{what}: a reference of zeros");
    for (name, expected) in expected {
        let what = format!("{what}: {name}");
        assert_close(what, &actual[name], expected, tolerance);
    }
}

/// [`assert_same`] for each result in `expected`, which must be finite.
pub fn assert_outcomes_same(what: impl Display, actual: &Outcome, expected: &Outcome) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of results");
    for (name, expected) in expected {
        assert_finite(format!("{what}: {name}: the reference"), expected);
        assert_same(format!("{what}: {name}"), &actual[name], expected);
    }
}
