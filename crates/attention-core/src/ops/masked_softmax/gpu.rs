//! By the kernels of a GPU.

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};

use super::MaskedSoftmaxInputs;
use crate::ops::gpu::{DeviceMask, readable, softmax};

/// The weights, and the same for the backward pass.
pub(in crate::ops) fn forward(
    inputs: MaskedSoftmaxInputs<CubeBackend>,
) -> (CubeTensor, CubeTensor) {
    let MaskedSoftmaxInputs { scores, mask } = readable(inputs);
    let [_, _, _, num_keys] = scores.shape().dims();
    let mask = DeviceMask::new(&mask, &scores, num_keys);
    let weights = softmax::forward(&scores, &mask);
    (weights.clone(), weights)
}

/// The gradient of the scores, from the weights and theirs.
pub(in crate::ops) fn backward(
    weights: CubeTensor,
    gradient: CubeTensor,
    _asked: Asked<1>,
) -> [Gradient<CubeBackend>; 1] {
    [Gradient::Whole(softmax::backward(&weights, gradient))]
}
