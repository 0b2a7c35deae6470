//! Linear maps of four-axis tensors.

use burn::nn::Linear;
use burn::tensor::module::linear;
use burn::tensor::{Tensor, assert_shape};

/// Applies `map` to the last axis; see [`project_by`].
///
/// # Shapes
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
pub(crate) fn project(map: &Linear, input: Tensor<4>) -> Tensor<4> {
    let bias = map.bias.as_ref().map(|bias| bias.val());
    project_by(map.weight.val(), bias, input)
}

/// Applies a linear map to the last axis, all rows in one matrix product.
///
/// `nn::Linear` on more than two axes forms its weight gradient per example and sums afterwards, which costs
/// more than the product itself.
///
/// # Shapes
/// - weight `[in, out]`, bias `[out]`
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
pub(crate) fn project_by(
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    input: Tensor<4>,
) -> Tensor<4> {
    let [batch, heads, rows, _] = input.dims();
    let [from, to] = weight.dims();
    assert_shape!(input, [batch, heads, rows, from]);
    let output = linear(input.reshape([batch * heads * rows, from]), weight, bias);
    output.reshape([batch, heads, rows, to])
}
