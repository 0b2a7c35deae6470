//! Checks of shapes, with uniform messages: `operation: argument expected shape, got shape`.

/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn check_shape<const N: usize>(
    operation: &str,
    argument: &str,
    expected: [usize; N],
    got: [usize; N],
) {
    assert!(
        got == expected,
        "{operation}: {argument} expected {expected:?}, got {got:?}"
    );
}

/// # Panics
/// If a contiguous slice of `len` elements does not have the expected shape.
#[track_caller]
pub fn check_len<const N: usize>(
    operation: &str,
    argument: &str,
    expected: [usize; N],
    len: usize,
) {
    assert!(
        len == expected.iter().product(),
        "{operation}: {argument} expected {expected:?}, got {len} elements"
    );
}
