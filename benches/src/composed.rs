//! Attention as one writes it with Burn's tensor operations, to compare with.

use attention_core::AdditiveScore;
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;

/// About how often each of these stores its largest tensor, at the peak of a forward pass.
pub const FORWARD_COPIES: usize = 2;
/// And with a backward pass.
pub const BACKWARD_COPIES: usize = 4;

/// Additive attention.
///
/// # Shapes
/// - queries `[batch, queries, query_size]`, keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`
/// - result `[batch, queries, value_size]`
pub fn additive(inputs: [Tensor<3>; 3], score: &AdditiveScore) -> Tensor<3> {
    let [queries, keys, values] = inputs;
    let keys = product(keys, score.key.weight.val());
    additive_decoding([queries, keys, values], score)
}

/// Additive attention to keys that are projected already, `[batch, keys, num_hiddens]`.
pub fn additive_decoding(inputs: [Tensor<3>; 3], score: &AdditiveScore) -> Tensor<3> {
    let [queries, keys, values] = inputs;
    let queries = product(queries, score.query.weight.val());
    let sum = queries.unsqueeze_dim::<4>(2) + keys.unsqueeze_dim::<4>(1);
    let [batch, num_queries, num_keys, num_hiddens] = sum.dims();
    let pairs = batch * num_queries * num_keys;
    let features = sum.tanh().reshape([pairs, num_hiddens]);
    let scores = features.matmul(score.value.weight.val());
    let scores = scores.reshape([batch, num_queries, num_keys]);
    softmax(scores, 2).matmul(values)
}

/// Scaled dot-product attention.
///
/// # Shapes
/// - queries `[.., queries, size]`, keys `[.., keys, size]`, values `[.., keys, _]`, result `[.., queries, _]`
pub fn dot_product<const D: usize>(inputs: [Tensor<D>; 3]) -> Tensor<D> {
    let [queries, keys, values] = inputs;
    let size = queries.dims()[D - 1];
    let scores = queries.matmul(keys.transpose()) / (size as f64).sqrt();
    softmax(scores, D - 1).matmul(values)
}

/// All rows in one product: one product an example costs more, its gradient most.
fn product(input: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    let [batch, rows, size] = input.dims();
    let output = input.reshape([batch * rows, size]).matmul(weight);
    let [_, size] = output.dims();
    output.reshape([batch, rows, size])
}
