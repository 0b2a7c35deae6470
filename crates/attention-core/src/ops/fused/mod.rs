//! What the fused attentions have in common.

pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

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
