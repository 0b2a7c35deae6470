//! By the kernel of `attention-kernels`.

use attention_kernels::{
    self as kernels, AdditiveAttentionGradients, AdditiveDeferredGradients, AttentionOutputs,
};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::deferred_gradients::Deferral;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::Level;

use super::AdditiveAttentionInputs;
use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::dropout::draw_seed;
use crate::ops::fused::Attended;
use crate::ops::fused::cpu::{dropout, outputs};
use crate::ops::fused::{output_shapes, pairs_shape};
use crate::ops::host::{
    AttentionElement, CpuBackend, CpuReal, elements, on_host, readable, rows, tensor, unwritten,
    whole, with_real, zeros,
};

type Saved<B> = Attended<B, AdditiveAttentionInputs<B>>;

/// What the kernel reads.
fn kernel<'a, B: CpuBackend, E: AttentionElement>(
    inputs: &'a AdditiveAttentionInputs<B>,
    seed: &Option<FloatTensor<B>>,
) -> kernels::AdditiveAttentionInputs<'a, E> {
    kernels::AdditiveAttentionInputs {
        score: kernels::AdditiveScoreInputs {
            queries: rows::<B, E>(&inputs.queries),
            keys: rows::<B, E>(&inputs.keys),
            weight: elements::<B, E>(&inputs.weight),
            mask: on_host(&inputs.mask),
        },
        values: rows::<B, E>(&inputs.values),
        packed_keys: inputs.packed_keys.as_option().map(elements::<B, E>),
        dropout: dropout::<B>(inputs.dropout, seed),
    }
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: AdditiveAttentionInputs<B>,
) -> (FloatTensor<B>, Saved<B>) {
    let inputs = readable(inputs);
    let seed = draw_seed::<B>(inputs.dropout, &inputs.queries);
    let [context_shape, statistics_shape] = output_shapes::<B>(&inputs.queries, &inputs.values);
    let dtype = inputs.queries.dtype();
    let (context, statistics, weights) = with_real!(dtype, E => {
        let mut context = unwritten::<E>(&context_shape);
        let mut statistics = unwritten::<f64>(&statistics_shape);
        let lse = statistics.as_chunks_mut().0;
        let kernel = kernel::<B, E>(&inputs, &seed);
        let level = Level::current();
        let weights = if kernel.is_decode() {
            let shape = pairs_shape::<B>(&inputs.queries, &inputs.keys);
            let mut weights = unwritten::<E>(&shape);
            kernel.forward_saving(level, &mut context, lse, &mut weights);
            Some(tensor::<B, E>(weights, shape, E::DTYPE, &inputs.queries))
        } else {
            kernel.forward(level, &mut context, lse);
            None
        };
        (
            tensor::<B, E>(context, context_shape, dtype, &inputs.queries),
            tensor::<B, f64>(statistics, statistics_shape, f64::DTYPE, &inputs.queries),
            weights,
        )
    });
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics,
        weights,
        seed,
    };
    (context, saved)
}

/// The gradients of queries, keys, values and weight.
pub(in crate::ops) fn backward<B: CpuBackend>(
    saved: Saved<B>,
    gradient: FloatTensor<B>,
    asked: Asked<4>,
) -> [Gradient<B>; 4] {
    let gradient = B::readable(gradient);
    let dtype = gradient.dtype();
    with_real!(dtype, E => {
        let kernel = kernel::<B, E>(&saved.inputs, &saved.seed);
        let outputs = outputs::<B, E, _>(&saved, &gradient);
        if asked.deferral == Deferral::Allowed && kernel.is_decode() {
            return deferred(&saved.inputs, &kernel, &outputs, &gradient);
        }
        let AdditiveAttentionInputs { queries, keys, values, weight, .. } = &saved.inputs;
        let inputs = [queries, keys, values, weight];
        let [mut to_queries, mut to_keys, mut to_values, mut to_weight] =
            inputs.map(|input| zeros::<E>(&input.shape()));
        let gradients = AdditiveAttentionGradients {
            queries: &mut to_queries,
            keys: &mut to_keys,
            values: &mut to_values,
            weight: &mut to_weight,
        };
        kernel.backward(Level::current(), &outputs, gradients);
        [
            whole::<B, E>(to_queries, dtype, queries),
            whole::<B, E>(to_keys, dtype, keys),
            whole::<B, E>(to_values, dtype, values),
            whole::<B, E>(to_weight, dtype, weight),
        ]
    })
}

/// The gradients of queries and weight, and what is deposited for those of keys and values.
fn deferred<B: CpuBackend, E: AttentionElement>(
    inputs: &AdditiveAttentionInputs<B>,
    kernel: &kernels::AdditiveAttentionInputs<E>,
    outputs: &AttentionOutputs<E>,
    gradient: &FloatTensor<B>,
) -> [Gradient<B>; 4] {
    let (queries, weight) = (&inputs.queries, &inputs.weight);
    let pairs = pairs_shape::<B>(queries, &inputs.keys);
    let mut to_queries = zeros::<E>(&queries.shape());
    let mut to_weight = zeros::<E>(&weight.shape());
    let [mut scores, mut weights] = [(); 2].map(|()| zeros::<E>(&pairs));
    let gradients = AdditiveDeferredGradients {
        queries: &mut to_queries,
        weight: &mut to_weight,
        scores: &mut scores,
        weights: &mut weights,
    };
    kernel.backward_deferred(Level::current(), outputs, gradients);
    let of_pairs = |elements| tensor::<B, E>(elements, pairs.clone(), E::DTYPE, queries);
    let dtype = gradient.dtype();
    [
        whole::<B, E>(to_queries, dtype, queries),
        Gradient::Deferred(Box::new(DeferredPairs::Additive {
            pairs: of_pairs(scores),
            queries: queries.clone(),
            weight: weight.clone(),
        })),
        Gradient::Deferred(Box::new(DeferredPairs::Products {
            factor: 1.0,
            pairs: of_pairs(weights),
            queries: gradient.clone(),
        })),
        whole::<B, E>(to_weight, dtype, weight),
    ]
}
