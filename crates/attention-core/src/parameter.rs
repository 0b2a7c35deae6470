//! Parameters, as modules read them.
//!
//! Burn's quantisation (`Module::quantize_weights`) turns any parameter of a module into a quantised tensor. Attention
//! computes with floats, so one rule serves all modules: a quantised parameter is dequantised where it is read, to the
//! float type of its device. What was quantised is not trained.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Tensor};

/// The parameter, dequantised if need be.
pub(crate) fn value<const D: usize>(parameter: &Param<Tensor<D>>) -> Tensor<D> {
    dequantized(parameter.val())
}

/// The tensor, dequantised if need be.
pub(crate) fn dequantized<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.dtype() {
        DType::QFloat(_) => tensor.dequantize(),
        _ => tensor,
    }
}

/// Weight and bias of a linear layer.
pub(crate) fn of_linear(layer: &Linear) -> (Tensor<2>, Option<Tensor<1>>) {
    (value(&layer.weight), layer.bias.as_ref().map(value))
}

/// The only column of a linear layer `[size, 1]`, `[size]`.
pub(crate) fn column(layer: &Linear) -> Tensor<1> {
    let weight = value(&layer.weight);
    let [size, _] = weight.dims();
    weight.reshape([size])
}

/// `gain w / |w|`, where `w` is the only [`column`] of a linear layer: its length and direction are learnt apart
/// (Salimans & Kingma 2016, "Weight Normalization").
pub(crate) fn normalized_column(layer: &Linear, gain: &Param<Tensor<1>>) -> Tensor<1> {
    let direction = column(layer);
    let length = direction.clone().square().sum().sqrt();
    direction * (value(gain) / length)
}
