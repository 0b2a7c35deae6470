//! Checks of configurations.

/// # Panics
/// If a size is 0; `config` is what asks for it.
pub(crate) fn assert_positive(config: &str, sizes: &[(&str, usize)]) {
    for (name, size) in sizes {
        assert!(*size > 0, "{config}: {name} expected at least 1, got 0");
    }
}

/// # Panics
/// If a number is infinite or NaN.
pub(crate) fn assert_finite(config: &str, name: &str, number: f64) {
    assert!(
        number.is_finite(),
        "{config}: {name} expected a finite number, got {number}"
    );
}
