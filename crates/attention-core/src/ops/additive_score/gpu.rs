//! By the kernels of a GPU.

use attention_gpu::{Form, Problem, cast};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::AdditiveScoreInputs;
use crate::ops::gpu::{device_mask, readable};
use crate::ops::kernel::{Asked, Gradient};

type Inputs = AdditiveScoreInputs<CubeBackend>;

/// What the kernels read.
fn problem(inputs: &Inputs) -> Problem {
    let [_, _, num_keys, _] = inputs.keys.shape().dims();
    Problem {
        form: Form::Additive,
        queries: inputs.queries.clone(),
        keys: inputs.keys.clone(),
        values: inputs.keys.clone(),
        weight: Some(cast(inputs.weight.clone(), DType::F32)),
        bias: None,
        mask: device_mask(&inputs.mask, &inputs.queries, num_keys),
        scale: 1.0,
        dropout: 0.0,
        seed: None,
    }
}

/// The scores, and the inputs for the backward pass.
pub(in crate::ops) fn forward(inputs: Inputs) -> (CubeTensor, Inputs) {
    let inputs = readable(inputs);
    let scores = problem(&inputs).scores();
    (cast(scores, inputs.queries.dtype()), inputs)
}

/// The gradients of queries, keys and weight.
pub(in crate::ops) fn backward(
    inputs: Inputs,
    gradient: CubeTensor,
    _asked: Asked<3>,
) -> [Gradient<CubeBackend>; 3] {
    // Behind fusion the inputs are those from before the forward pass.
    let inputs = readable(inputs);
    let gradients = problem(&inputs).backward_of_scores(gradient);
    let dtype = inputs.queries.dtype();
    let whole = |gradient| Gradient::Whole(cast(gradient, dtype));
    [
        whole(gradients.queries),
        whole(gradients.keys.keys),
        gradients.weight.map_or(Gradient::Absent, whole),
    ]
}
