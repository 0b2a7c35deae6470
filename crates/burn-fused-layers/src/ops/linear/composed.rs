//! The composed definition.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use super::LinearInputs;

/// `input weight + bias`
pub(crate) fn forward<B: Backend>(inputs: LinearInputs<B>) -> FloatTensor<B> {
    let LinearInputs {
        input,
        weight,
        bias,
        ..
    } = inputs;
    B::linear(input, weight, bias.into_option())
}
