//! What the fused attentions have in common.

pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Tensor, assert_shape};

use super::key_heads::assert_divides;
use crate::Memory;
use crate::checks::{Argument, assert_together};

/// The shape of the scores of `queries` with the keys of a memory.
pub(super) fn scores_shape(queries: &Tensor<4>, memory: &Memory) -> [usize; 4] {
    let [batch, heads, num_queries, _] = queries.dims();
    [batch, heads, num_queries, memory.num_keys()]
}

/// The context where there is no pair of query and key, or no element of a value: 0 or empty.
///
/// # Panics
/// If shapes, types or devices do not fit together or the dropout is not in `[0, 1)`.
pub(super) fn context_without_pairs(
    operation: &str,
    queries: &Tensor<4>,
    memory: &Memory,
    dropout: f64,
) -> Option<Tensor<4>> {
    let (keys, values) = (&memory.keys, &memory.values);
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, key_heads, num_keys, _] = keys.dims();
    let [_, _, _, value_size] = values.dims();
    assert_shape!(keys, [batch, key_heads, num_keys, size]);
    assert_shape!(values, [batch, key_heads, num_keys, value_size]);
    assert_divides(operation, key_heads, heads);
    let others = [
        Argument::floats("keys", keys),
        Argument::floats("values", values),
    ];
    assert_together(operation, Argument::floats("queries", queries), others);
    assert!(
        (0.0..1.0).contains(&dropout),
        "{operation}: dropout expected in [0, 1), got {dropout}"
    );
    let is_empty = batch * heads * num_queries * num_keys * value_size == 0;
    is_empty.then(|| {
        let shape = [batch, heads, num_queries, value_size];
        Tensor::zeros(shape, (&values.device(), values.dtype()))
    })
}

/// The shapes of the context and of the statistics of its rows: two numbers each, of which the backward pass computes
/// the weights again.
pub(super) fn output_shapes<B: Backend>(
    queries: &FloatTensor<B>,
    values: &FloatTensor<B>,
) -> [Shape; 2] {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, _, value_size] = values.shape().dims();
    [
        [batch, heads, num_queries, value_size].into(),
        [batch, heads, num_queries, 2].into(),
    ]
}

/// The shape of what is known of each pair of query and key.
pub(super) fn pairs_shape<B: Backend>(queries: &FloatTensor<B>, keys: &FloatTensor<B>) -> Shape {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    [batch, heads, num_queries, num_keys].into()
}
