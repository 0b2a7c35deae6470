//! Runs in the kernel of `cpu-kernels`.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::{Level, NormalizationGradients, NormalizationInputs};

use super::{NormalizeInputs, Normalized};
use crate::harness::host::{
    CpuBackend, CpuReal, elements, tensor, unwritten, whole, with_compiled,
};
use crate::harness::kernel::{Asked, Gradient};

/// The inputs of the kernel, from contiguous tensors.
fn kernel<B: CpuBackend, E: CpuReal>(inputs: &NormalizeInputs<B>) -> NormalizationInputs<'_, E> {
    NormalizationInputs {
        rows: elements::<B, E>(&inputs.input),
        gain: elements::<B, E>(&inputs.gain),
        bias: inputs.bias.as_option().map(elements::<B, E>),
        epsilon: inputs.epsilon,
        is_centered: inputs.is_centered,
    }
}

/// The normalized rows, and what the backward pass needs.
pub(crate) fn forward<B: CpuBackend>(
    inputs: NormalizeInputs<B>,
) -> (FloatTensor<B>, Normalized<B>) {
    let inputs = NormalizeInputs {
        input: B::contiguous(inputs.input),
        gain: B::contiguous(inputs.gain),
        bias: inputs.bias.into_option().map(B::contiguous).into(),
        ..inputs
    };
    let like = &inputs.input;
    let shape = like.shape();
    let rows = shape.num_elements() / inputs.gain.shape()[0];
    let (output, statistics) = with_compiled!(like.dtype(), E => {
        let mut output = unwritten::<E>(&shape);
        let mut statistics = unwritten::<E>(&[rows, 2].into());
        kernel::<B, E>(&inputs).forward(Level::current(), &mut output, &mut statistics);
        (
            tensor::<B, E>(output, shape, E::DTYPE, like),
            tensor::<B, E>(statistics, [rows, 2], E::DTYPE, like),
        )
    });
    (output, Normalized { inputs, statistics })
}

/// The gradients of input, gain and bias.
pub(crate) fn backward<B: CpuBackend>(
    saved: Normalized<B>,
    gradient: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    let Normalized { inputs, statistics } = saved;
    let gradient = B::contiguous(gradient);
    // The bias has the shape of the gain.
    let tensors = [&inputs.input, &inputs.gain, &inputs.gain];
    with_compiled!(gradient.dtype(), E => {
        let mut buffers: [_; 3] = std::array::from_fn(|n| {
            asked.wanted[n].then(|| unwritten::<E>(&tensors[n].shape()))
        });
        let [rows, gain, bias] = buffers.each_mut().map(Option::as_deref_mut);
        kernel::<B, E>(&inputs).backward(
            Level::current(),
            elements::<B, E>(&statistics),
            elements::<B, E>(&gradient),
            NormalizationGradients { rows, gain, bias },
        );
        std::array::from_fn(|n| {
            let buffer = buffers[n].take();
            buffer.map_or(Gradient::Absent, |of| whole::<B, E>(of, E::DTYPE, tensors[n]))
        })
    })
}
