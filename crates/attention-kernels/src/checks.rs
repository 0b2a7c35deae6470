//! Checks of shapes, in one style of message: `operation: argument expected shape, got shape`.

/// # Panics
/// If the shapes differ.
#[track_caller]
pub(crate) fn check_shape<const N: usize>(
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
/// If a contiguous slice of `len` elements has not the shape expected.
#[track_caller]
pub(crate) fn check_len<const N: usize>(
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

/// Whether an attention is a step of a decoder: at most `most` queries, and no size of queries, keys and values is 0.
pub(crate) fn is_decode(most: usize, shapes: [[usize; 4]; 3]) -> bool {
    let [[_, _, num_queries, _], ..] = shapes;
    num_queries <= most && !shapes.as_flattened().contains(&0)
}

/// # Panics
/// If an attention is no step of a decoder.
#[track_caller]
pub(crate) fn check_decode(operation: &str, most: usize, shapes: [[usize; 4]; 3]) {
    let [queries, keys, values] = shapes;
    assert!(
        is_decode(most, shapes),
        "{operation}: deferred gradients expected 1 to {most} queries and no size of 0, got queries {queries:?}, keys \
         {keys:?}, values {values:?}"
    );
}
