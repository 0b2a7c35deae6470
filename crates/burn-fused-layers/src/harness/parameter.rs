//! Parameters, as modules read them.
//!
//! Burn's quantisation (`Module::quantize_weights`) turns any parameter of a module into a quantised tensor. Layers
//! compute with floats, so one rule serves all modules: a quantised parameter is dequantised where it is read, to the
//! float type of its device. What was quantised is not trained.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Tensor};

/// The parameter, dequantised if need be.
pub fn value<const D: usize>(parameter: &Param<Tensor<D>>) -> Tensor<D> {
    dequantized(parameter.val())
}

/// The tensor, dequantised if need be.
pub fn dequantized<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.dtype() {
        DType::QFloat(_) => tensor.dequantize(),
        _ => tensor,
    }
}

/// Weight and bias of a linear layer.
pub fn of_linear(layer: &Linear) -> (Tensor<2>, Option<Tensor<1>>) {
    (value(&layer.weight), layer.bias.as_ref().map(value))
}
