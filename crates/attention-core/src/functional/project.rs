//! Linear layers on rows of queries, keys or values.

use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear;

use crate::checks::assert_fits;

/// Applies `layer` to the last axis of `name`; see [`project_by`].
///
/// # Shapes
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size or type of `name` are not those of the layer.
pub(crate) fn project(name: &str, layer: &Linear, input: Tensor<4>) -> Tensor<4> {
    let (weight, bias) = of_linear(layer);
    project_by(name, weight, bias, input)
}

/// `input weight + bias` along the last axis of `name`; see [`linear`].
///
/// # Shapes
/// - weight `[in, out]`, bias `[out]`
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size, type or device of `name` are not those of the weight.
pub(crate) fn project_by(
    name: &str,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    input: Tensor<4>,
) -> Tensor<4> {
    assert_fits(name, &input, &weight);
    linear(input, weight, bias)
}
