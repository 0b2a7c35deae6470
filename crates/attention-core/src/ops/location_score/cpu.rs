//! Runs in the kernel of `attention-kernels`.

use attention_kernels::{self as kernels, LocationScoreGradients};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn_fused_layers::harness::deferred_gradients::{Deferral, Deposit, downcast, marker};
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::{Buffer, Level};

use super::LocationScoreInputs;
use crate::ops::host::{
    AttentionElement, CpuBackend, elements, on_host, pairs_shape, readable, rows, tensor,
    unwritten, whole, with_compiled, zeros,
};

/// The inputs of the kernel.
fn kernel<B: CpuBackend, E: AttentionElement>(
    inputs: &LocationScoreInputs<B>,
) -> kernels::LocationScoreInputs<'_, E> {
    kernels::LocationScoreInputs {
        queries: rows::<B, E>(&inputs.queries),
        keys: rows::<B, E>(&inputs.keys),
        weight: elements::<B, E>(&inputs.weight),
        alignments: rows::<B, E>(&inputs.alignments),
        filters: rows::<B, E>(&inputs.filters),
        mask: on_host(&inputs.mask),
    }
}

/// The scores, and the inputs for the backward pass.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: LocationScoreInputs<B>,
) -> (FloatTensor<B>, LocationScoreInputs<B>) {
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

/// The requested gradients of queries, keys, weight, alignments and filters.
pub(in crate::ops) fn backward<B: CpuBackend>(
    inputs: LocationScoreInputs<B>,
    score_gradients: FloatTensor<B>,
    asked: Asked<5>,
) -> [Gradient<B>; 5] {
    let score_gradients = B::readable(score_gradients);
    let tensors = [
        &inputs.queries,
        &inputs.keys,
        &inputs.weight,
        &inputs.alignments,
        &inputs.filters,
    ];
    let is_deferred = asked.deferral == Deferral::Allowed;
    with_compiled!(score_gradients.dtype(), E => {
        let mut buffers: [Option<Buffer<E>>; 5] = std::array::from_fn(|n| {
            let is_made = asked.wanted[n] && !(n == 1 && is_deferred);
            is_made.then(|| zeros::<E>(&tensors[n].shape()))
        });
        let [queries, keys, weight, alignments, filters] =
            buffers.each_mut().map(|buffer| buffer.as_deref_mut());
        let gradients = LocationScoreGradients { queries, keys, weight, alignments, filters };
        let gradient_rows = rows::<B, E>(&score_gradients);
        kernel::<B, E>(&inputs).backward(Level::current(), gradient_rows, gradients);
        std::array::from_fn(|n| match buffers[n].take() {
            Some(buffer) => whole::<B, E>(buffer, tensors[n].dtype(), tensors[n]),
            None if n == 1 && asked.wanted[1] => Gradient::Deferred(Box::new(
                DeferredKeys {
                    inputs: inputs.clone(),
                    score_gradients: score_gradients.clone(),
                },
            )),
            None => Gradient::Absent,
        })
    })
}

/// A step's deposit for the gradient of the keys: the inputs from which the kernel recomputes it.
#[derive(Debug)]
struct DeferredKeys<B: Backend> {
    inputs: LocationScoreInputs<B>,
    score_gradients: FloatTensor<B>,
}

impl<B: CpuBackend> Deposit<B> for DeferredKeys<B> {
    fn marker(&self) -> FloatTensor<B> {
        marker::<B, 4>(&self.inputs.queries)
    }

    fn sum(
        self: Box<Self>,
        others: Vec<Box<dyn Deposit<B>>>,
        shared: FloatTensor<B>,
    ) -> FloatTensor<B> {
        let mut steps = downcast::<B, Self>(others);
        steps.push(*self);
        with_compiled!(shared.dtype(), E => {
            let mut keys = zeros::<E>(&shared.shape());
            for Self { inputs, score_gradients } in &steps {
                let gradients = LocationScoreGradients {
                    keys: Some(&mut keys),
                    ..LocationScoreGradients::NONE
                };
                let score_gradients = rows::<B, E>(score_gradients);
                kernel::<B, E>(inputs).backward(Level::current(), score_gradients, gradients);
            }
            tensor::<B, E>(keys, shared.shape(), shared.dtype(), &shared)
        })
    }
}
