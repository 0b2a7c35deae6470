//! Runs in the kernel of `cpu-kernels`.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::{ActivationGradients, ActivationInputs, Level};

use super::ActivateInputs;
use crate::harness::host::{
    CpuBackend, CpuReal, elements, tensor, unwritten, whole, with_compiled,
};
use crate::harness::kernel::{Asked, Gradient};

/// The inputs of the kernel, from contiguous tensors.
fn kernel<B: CpuBackend, E: CpuReal>(inputs: &ActivateInputs<B>) -> ActivationInputs<'_, E> {
    ActivationInputs {
        function: inputs.function,
        input: elements::<B, E>(&inputs.input),
        factor: inputs.factor.as_option().map(elements::<B, E>),
    }
}

/// The result, and the inputs for the backward pass.
pub(crate) fn forward<B: CpuBackend>(
    inputs: ActivateInputs<B>,
) -> (FloatTensor<B>, ActivateInputs<B>) {
    let inputs = ActivateInputs {
        input: B::contiguous(inputs.input),
        factor: inputs.factor.into_option().map(B::contiguous).into(),
        ..inputs
    };
    let shape = inputs.input.shape();
    let output = with_compiled!(inputs.input.dtype(), E => {
        let mut output = unwritten::<E>(&shape);
        kernel::<B, E>(&inputs).forward(Level::current(), &mut output);
        tensor::<B, E>(output, shape, E::DTYPE, &inputs.input)
    });
    (output, inputs)
}

/// The gradients of input and factor.
pub(crate) fn backward<B: CpuBackend>(
    inputs: ActivateInputs<B>,
    gradient: FloatTensor<B>,
    asked: Asked<2>,
) -> [Gradient<B>; 2] {
    let gradient = B::contiguous(gradient);
    let like = &inputs.input;
    with_compiled!(gradient.dtype(), E => {
        let of = asked.wanted.map(|is_wanted| is_wanted.then(|| unwritten::<E>(&like.shape())));
        let [mut of_input, mut of_factor] = of;
        let gradients = ActivationGradients {
            input: of_input.as_deref_mut(),
            factor: of_factor.as_deref_mut(),
        };
        let received = elements::<B, E>(&gradient);
        kernel::<B, E>(&inputs).backward(Level::current(), received, gradients);
        [of_input, of_factor].map(|elements| {
            elements.map_or(Gradient::Absent, |of| whole::<B, E>(of, E::DTYPE, like))
        })
    })
}
