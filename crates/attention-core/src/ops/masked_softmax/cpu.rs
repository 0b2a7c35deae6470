//! Runs in the kernel of `attention-kernels`.

use attention_kernels::{masked_softmax, masked_softmax_backward};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::Level;

use super::MaskedSoftmaxInputs;
use crate::ops::host::{
    CpuBackend, on_host, readable, rows, tensor, unwritten, whole, with_compiled,
};

/// The weights, and a copy for the backward pass.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: MaskedSoftmaxInputs<B>,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let MaskedSoftmaxInputs { scores, mask } = readable(inputs);
    let (shape, dtype) = (scores.shape(), scores.dtype());
    let weights = with_compiled!(dtype, E => {
        let mut weights = unwritten::<E>(&shape);
        masked_softmax(Level::current(), &on_host(&mask), rows::<B, E>(&scores), &mut weights);
        tensor::<B, E>(weights, shape, dtype, &scores)
    });
    (weights.clone(), weights)
}

/// The gradient of the scores, from the weights and the gradient of the weights.
pub(in crate::ops) fn backward<B: CpuBackend>(
    weights: FloatTensor<B>,
    gradient: FloatTensor<B>,
    _asked: Asked<1>,
) -> [Gradient<B>; 1] {
    let gradient = B::readable(gradient);
    let dtype = gradient.dtype();
    with_compiled!(dtype, E => {
        let mut scores = unwritten::<E>(&weights.shape());
        let [w, g] = [&weights, &gradient].map(rows::<B, E>);
        masked_softmax_backward(Level::current(), w, g, &mut scores);
        [whole::<B, E>(scores, dtype, &weights)]
    })
}
