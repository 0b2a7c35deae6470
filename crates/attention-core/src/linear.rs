//! Linear maps of four-axis tensors.

use burn::nn::Linear;
use burn::tensor::Tensor;

/// Applies `linear` to the last axis, all rows in one matrix product.
///
/// `nn::Linear` on more than two axes forms its weight gradient per example and sums afterwards, which costs
/// more than the product itself.
///
/// # Shapes
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
pub(crate) fn project(linear: &Linear, input: Tensor<4>) -> Tensor<4> {
    let [batch, heads, rows, size] = input.dims();
    let output = linear.forward(input.reshape([batch * heads * rows, size]));
    let [_, size] = output.dims();
    output.reshape([batch, heads, rows, size])
}
