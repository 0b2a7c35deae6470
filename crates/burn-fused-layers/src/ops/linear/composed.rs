//! The composed definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::{LinearInputs, rows, with_last};

/// `input weight + bias`
pub(crate) fn forward<B: Backend>(inputs: LinearInputs<B>) -> FloatTensor<B> {
    let LinearInputs {
        input,
        weight,
        bias,
        ..
    } = inputs;
    let [_, to] = weight.shape().dims();
    let shape = with_last(input.shape(), to);
    let output = B::linear(rows::<B>(input), weight, bias.into_option());
    match shape.num_dims() {
        2 => output,
        _ => B::float_reshape(output, shape),
    }
}
