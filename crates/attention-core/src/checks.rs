//! Checks of inputs, with messages that name them.

use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};

/// # Panics
/// If queries differ from keys and values in the number of examples.
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
    let parameters = Argument::floats("parameters", weight);
    assert_together("linear layer", parameters, [Argument::floats(name, rows)]);
}
