//! The composed definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::{LinearInputs, rows, with_last};

/// `input weight + bias`
pub(crate) fn forward<B: Backend>(inputs: LinearInputs<B>) -> FloatTensor<B> {
    let [_, to] = inputs.weight.shape().dims();
    let shape = with_last(inputs.input.shape(), to);
    let input = rows::<B>(inputs.input);
    let output = B::linear(input, inputs.weight, inputs.bias.into_option());
    match shape.num_dims() {
        2 => output,
        _ => B::float_reshape(output, shape),
    }
}
