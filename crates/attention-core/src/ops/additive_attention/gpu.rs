//! By the kernels of a GPU.

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::AdditiveAttentionInputs;
use crate::ops::deferred_gradients::Deferral;
use crate::ops::dropout::draw_seed;
use crate::ops::gpu::{DeviceMask, Form, Problem, cast, readable};
use crate::ops::kernels::{Attended, Gradient};

type Inputs = AdditiveAttentionInputs<CubeBackend>;
type Saved = Attended<CubeBackend, Inputs>;

/// What the kernels read.
fn problem(inputs: &Inputs, seed: Option<CubeTensor>) -> Problem {
    let [_, _, num_keys, _] = inputs.keys.shape().dims();
    Problem {
        queries: inputs.queries.clone(),
        keys: inputs.keys.clone(),
        values: inputs.values.clone(),
        weight: Some(cast(inputs.weight.clone(), DType::F32)),
        bias: None,
        mask: DeviceMask::new(&inputs.mask, &inputs.queries, num_keys),
        scale: 1.0,
        dropout: inputs.dropout,
        seed,
    }
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn forward(inputs: Inputs) -> (CubeTensor, Saved) {
    let inputs = readable(inputs);
    let seed = draw_seed::<CubeBackend>(inputs.dropout, &inputs.queries);
    let [context, statistics] = problem(&inputs, seed.clone()).forward(Form::Additive);
    let context = cast(context, inputs.queries.dtype());
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics,
        seed,
    };
    (context, saved)
}

/// The gradients of queries, keys, values and weight.
pub(in crate::ops) fn backward(
    saved: Saved,
    gradient: CubeTensor,
    _deferral: Deferral,
) -> [Gradient<CubeBackend>; 4] {
    let Attended {
        inputs,
        context,
        statistics,
        seed,
    } = saved;
    // Behind fusion the inputs are those from before the forward pass.
    let inputs = readable(inputs);
    let problem = problem(&inputs, seed);
    let gradients = problem.backward(Form::Additive, &context, &statistics, gradient);
    let dtype = inputs.queries.dtype();
    [
        gradients.queries,
        gradients.keys,
        gradients.values,
        gradients.weight,
    ]
    .map(|gradient| Gradient::Whole(cast(gradient, dtype)))
}
