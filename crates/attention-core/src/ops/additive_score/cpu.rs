//! By the kernel of `attention-kernels`.

use attention_kernels::{self as kernels, AdditiveScoreGradients};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::Level;

use super::AdditiveScoreInputs;
use crate::ops::fused::cpu::{gradient, gradient_buffers};
use crate::ops::fused::pairs_shape;
use crate::ops::host::{
    AttentionElement, CpuBackend, elements, on_host, readable, rows, tensor, unwritten,
    with_compiled,
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

/// The gradients of queries, keys and weight that are wanted.
pub(in crate::ops) fn backward<B: CpuBackend>(
    inputs: AdditiveScoreInputs<B>,
    score_gradients: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    // Behind a server the inputs are those from before the forward pass.
    let inputs = readable(inputs);
    let score_gradients = B::readable(score_gradients);
    let dtype = score_gradients.dtype();
    let AdditiveScoreInputs {
        queries,
        keys,
        weight,
        ..
    } = &inputs;
    with_compiled!(dtype, E => {
        let [mut to_queries, mut to_keys, mut to_weight] =
            gradient_buffers::<B, E, 3>([queries, keys, weight], asked.wanted);
        let gradients = AdditiveScoreGradients {
            queries: to_queries.as_deref_mut(),
            keys: to_keys.as_deref_mut(),
            weight: to_weight.as_deref_mut(),
        };
        let score_gradients = rows::<B, E>(&score_gradients);
        kernel::<B, E>(&inputs).backward(Level::current(), score_gradients, gradients);
        [
            gradient::<B, E>(to_queries, dtype, queries),
            gradient::<B, E>(to_keys, dtype, keys),
            gradient::<B, E>(to_weight, dtype, weight),
        ]
    })
}
