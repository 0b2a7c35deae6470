//! The composed definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::LinearInputs;

/// `input weight + bias`
pub(crate) fn forward<B: Backend>(inputs: LinearInputs<B>) -> FloatTensor<B> {
    let (shape, rows) = inputs.output_shape();
    let LinearInputs {
        input,
        weight,
        bias,
        ..
    } = inputs;
    let bias = bias.into_option();
    if shape.num_dims() == 2 {
        return B::linear(input, weight, bias);
    }
    let [from, _] = weight.shape().dims();
    let input = B::float_reshape(input, [rows, from].into());
    B::float_reshape(B::linear(input, weight, bias), shape)
}
