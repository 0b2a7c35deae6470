//! Linear layers on tensors of four axes.

use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::module::linear;

use crate::checks::assert_fits;

/// Applies `layer` to the last axis of `name`; see [`project_by`].
///
/// # Shapes
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size or type of `name` are not those of the layer.
pub(crate) fn project(name: &str, layer: &Linear, input: Tensor<4>) -> Tensor<4> {
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    project_by(name, layer.weight.val(), bias, input)
}

/// `input weight + bias` along the last axis of `name`, all rows in one matrix product.
///
/// `nn::Linear` on more than two axes forms its weight gradient per example and sums afterwards, which costs
/// more than the product itself.
///
/// # Shapes
/// - weight `[in, out]`, bias `[out]`
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size or type of `name` are not those of the weight.
pub(crate) fn project_by(
    name: &str,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    input: Tensor<4>,
) -> Tensor<4> {
    assert_fits(name, &input, &weight);
    let [batch, heads, rows, _] = input.dims();
    let [from, to] = weight.dims();
    if batch * heads * rows == 0 {
        return Tensor::zeros([batch, heads, rows, to], (&input.device(), input.dtype()));
    }
    let output = linear(input.reshape([batch * heads * rows, from]), weight, bias);
    output.reshape([batch, heads, rows, to])
}

/// The only column of a linear layer `[size, 1]`, `[size]`.
pub(crate) fn column(layer: &Linear) -> Tensor<1> {
    let weight = layer.weight.val();
    let [size, _] = weight.dims();
    weight.reshape([size])
}

/// `gain w / |w|`, where `w` is the only [`column`] of a linear layer: its length and direction are learnt apart
/// (Salimans & Kingma 2016, "Weight Normalization").
pub(crate) fn normalized_column(layer: &Linear, gain: Tensor<1>) -> Tensor<1> {
    let direction = column(layer);
    let length = direction.clone().square().sum().sqrt();
    direction * (gain / length)
}
