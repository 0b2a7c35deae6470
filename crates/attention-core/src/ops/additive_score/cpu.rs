//! Runs in the kernel of `attention-kernels`.

use attention_kernels::{self as kernels, AdditiveScoreGradients};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::{Buffer, Level};

use super::AdditiveScoreInputs;
use crate::ops::host::{
    AttentionElement, CpuBackend, elements, on_host, pairs_shape, readable, rows, tensor,
    unwritten, whole, with_compiled, zeros,
};

/// The inputs of the kernel.
fn kernel<B: CpuBackend, E: AttentionElement>(
    inputs: &AdditiveScoreInputs<B>,
) -> kernels::AdditiveScoreInputs<'_, E> {
    kernels::AdditiveScoreInputs {
        queries: rows::<B, E>(&inputs.queries),
        keys: rows::<B, E>(&inputs.keys),
        weight: elements::<B, E>(&inputs.weight),
        mask: on_host(&inputs.mask),
    }
}

/// The scores, and the inputs for the backward pass.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: AdditiveScoreInputs<B>,
) -> (FloatTensor<B>, AdditiveScoreInputs<B>) {
    let inputs = readable(inputs);
    let shape = pairs_shape::<B>(&inputs.queries, &inputs.keys);
    let dtype = inputs.queries.dtype();
    let scores = with_compiled!(dtype, E => {
        let mut scores = unwritten::<E>(&shape);
        kernel::<B, E>(&inputs).forward(Level::current(), &mut scores);
        tensor::<B, E>(scores, shape, dtype, &inputs.queries)
    });
    (scores, inputs)
}

/// The requested gradients of queries, keys and weight.
pub(in crate::ops) fn backward<B: CpuBackend>(
    inputs: AdditiveScoreInputs<B>,
    score_gradients: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    let score_gradients = B::readable(score_gradients);
    let dtype = score_gradients.dtype();
    let tensors = [&inputs.queries, &inputs.keys, &inputs.weight];
    with_compiled!(dtype, E => {
        let mut buffers: [Option<Buffer<E>>; 3] =
            std::array::from_fn(|n| asked.wanted[n].then(|| zeros::<E>(&tensors[n].shape())));
        let [queries, keys, weight] = buffers.each_mut().map(|buffer| buffer.as_deref_mut());
        let gradients = AdditiveScoreGradients { queries, keys, weight };
        let score_gradients = rows::<B, E>(&score_gradients);
        kernel::<B, E>(&inputs).backward(Level::current(), score_gradients, gradients);
        std::array::from_fn(|n| match buffers[n].take() {
            Some(buffer) => whole::<B, E>(buffer, dtype, tensors[n]),
            None => Gradient::Absent,
        })
    })
}
