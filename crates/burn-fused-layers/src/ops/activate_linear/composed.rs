//! The definition: the two operations in sequence.

use burn::backend::tensor::FloatTensor;

use super::ActivateLinearInputs;
use crate::ops::LayerOps;

/// `(f(input) * factor) weight + bias`
pub(crate) fn forward<B: LayerOps>(inputs: ActivateLinearInputs<B>) -> FloatTensor<B> {
    let (activation, layer) = inputs.parts();
    let activated = B::activate(activation);
    <B as LayerOps>::linear(layer(activated))
}
