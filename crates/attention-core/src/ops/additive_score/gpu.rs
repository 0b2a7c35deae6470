//! Runs in the kernels of a GPU.

use attention_gpu::{Wanted, cast};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};

use super::AdditiveScoreInputs;
use crate::ops::gpu::{device_mask, readable};

type Inputs = AdditiveScoreInputs<CubeBackend>;

fn kernel_inputs(inputs: &Inputs) -> attention_gpu::AdditiveScoreInputs {
    let [_, _, num_keys, _] = inputs.keys.shape().dims();
    attention_gpu::AdditiveScoreInputs {
        queries: inputs.queries.clone(),
        keys: inputs.keys.clone(),
        weight: cast(inputs.weight.clone(), DType::F32),
        mask: device_mask(&inputs.mask, &inputs.queries, num_keys),
    }
}

/// The scores, and the inputs for the backward pass.
pub(in crate::ops) fn forward(inputs: Inputs) -> (CubeTensor, Inputs) {
    let inputs = readable(inputs);
    let scores = kernel_inputs(&inputs).forward();
    (cast(scores, inputs.queries.dtype()), inputs)
}

/// The gradients of queries, keys and weight.
pub(in crate::ops) fn backward(
    inputs: Inputs,
    gradient: CubeTensor,
    asked: Asked<3>,
) -> [Gradient<CubeBackend>; 3] {
    // With fusion, these are the inputs from before the forward pass.
    let inputs = readable(inputs);
    let [queries, keys, weight] = asked.wanted;
    let wanted = Wanted {
        queries,
        keys,
        weight,
        ..Wanted::NONE
    };
    let gradients = kernel_inputs(&inputs).backward(gradient, wanted);
    let dtype = inputs.queries.dtype();
    [gradients.queries, gradients.keys, gradients.weight].map(|gradient| {
        gradient.map_or(Gradient::Absent, |gradient| {
            Gradient::Whole(cast(gradient, dtype))
        })
    })
}
