//! Checks of configurations and inputs, with messages that name them.

use burn::tensor::{DType, Tensor};

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

/// # Panics
/// If the elements are not of type `expected`, that of `whose`.
pub(crate) fn assert_dtype(name: &str, tensor: &Tensor<4>, whose: &str, expected: DType) {
    let got = tensor.dtype();
    assert!(
        got == expected,
        "{name} expected of type {expected:?}, as the {whose}, got {got:?}"
    );
}

/// # Panics
/// If there are not as many examples of queries as of keys and values.
pub(crate) fn assert_batch(queries: &Tensor<4>, values: &Tensor<4>) {
    let [[queries, ..], [values, ..]] = [queries.dims(), values.dims()];
    assert!(
        queries == values,
        "queries, keys and values expected of one batch, got queries of {queries} examples and keys of {values}"
    );
}

/// # Panics
/// If rows `[batch, heads, rows, size]` cannot go through a linear layer `weight`, `[size, out]`.
pub(crate) fn assert_fits(name: &str, rows: &Tensor<4>, weight: &Tensor<2>) {
    let dims @ [.., got] = rows.dims();
    let [expected, _] = weight.dims();
    assert!(
        got == expected,
        "{name}: last axis expected {expected}, got {got} ([batch, heads, rows, size] is {dims:?})"
    );
    if !matches!(weight.dtype(), DType::QFloat(_)) {
        assert_dtype(name, rows, "parameters", weight.dtype());
    }
}
