//! Runs in the kernels of both, without keeping the activation in memory between the passes: the backward pass
//! recomputes it, which costs one of the many passes over it that the products make.

use burn::backend::tensor::FloatTensor;

use super::ActivateLinearInputs;
use crate::harness::host::CpuBackend;
use crate::harness::kernel::{Asked, Gradient};
use crate::ops::{activate, linear};

/// The result, and the inputs for the backward pass.
pub(crate) fn forward<B: CpuBackend>(
    inputs: ActivateLinearInputs<B>,
) -> (FloatTensor<B>, ActivateLinearInputs<B>) {
    let (activation, layer) = inputs.parts();
    let (activated, activation) = activate::cpu::forward(activation);
    let (output, layer) = linear::cpu::forward(layer(activated));
    let saved = ActivateLinearInputs {
        input: activation.input,
        factor: activation.factor,
        weight: layer.weight,
        bias: layer.bias,
        function: activation.function,
    };
    (output, saved)
}

/// The gradients of input, factor, weight and bias.
pub(crate) fn backward<B: CpuBackend>(
    inputs: ActivateLinearInputs<B>,
    gradient: FloatTensor<B>,
    asked: Asked<4>,
) -> [Gradient<B>; 4] {
    let [of_input, of_factor, of_weight, of_bias] = asked.wanted;
    let (activation, layer) = inputs.parts();
    // Only the gradient of the weight reads it; the others need only its shape.
    let (activated, activation) = match of_weight {
        true => activate::cpu::forward(activation),
        false => (activation.input.clone(), activation),
    };
    let asked_of_layer = Asked::whole([of_input || of_factor, of_weight, of_bias]);
    let gradients = linear::cpu::backward(layer(activated), gradient, asked_of_layer);
    let [of_activated, of_weight, of_bias] = gradients;
    let [of_input, of_factor] = match of_activated {
        Gradient::Whole(gradient) => {
            let asked_of_activation = Asked::whole([of_input, of_factor]);
            activate::cpu::backward(activation, gradient, asked_of_activation)
        }
        Gradient::Absent | Gradient::Deferred(_) => [Gradient::Absent, Gradient::Absent],
    };
    [of_input, of_factor, of_weight, of_bias]
}
