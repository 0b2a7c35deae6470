//! Runs in the kernels of a GPU.

use attention_gpu::{masked_softmax, masked_softmax_backward};
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};

use super::MaskedSoftmaxInputs;
use crate::ops::gpu::{device_mask, readable};

/// The weights, and a copy for the backward pass.
pub(in crate::ops) fn forward(
    inputs: MaskedSoftmaxInputs<CubeBackend>,
) -> (CubeTensor, CubeTensor) {
    let MaskedSoftmaxInputs { scores, mask } = readable(inputs);
    let [_, _, _, num_keys] = scores.shape().dims();
    let mask = device_mask(&mask, &scores, num_keys);
    let weights = masked_softmax(&scores, &mask);
    (weights.clone(), weights)
}

/// The gradient of the scores, from the weights and the gradient of the weights.
pub(in crate::ops) fn backward(
    weights: CubeTensor,
    gradient: CubeTensor,
    _asked: Asked<1>,
) -> [Gradient<CubeBackend>; 1] {
    [Gradient::Whole(masked_softmax_backward(&weights, gradient))]
}
