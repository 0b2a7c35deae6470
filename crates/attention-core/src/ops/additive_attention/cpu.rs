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
use crate::ops::fused::cpu::{
    ModifierBuffers, dropout, gradient, gradient_buffers, modifiers, outputs, pairs_gradient,
};
use crate::ops::fused::{output_shapes, pairs_shape};
use crate::ops::host::{
    AttentionElement, CpuBackend, CpuReal, elements, on_host, readable, rows, tensor, unwritten,
    with_compiled, zeros,
};

type Saved<B> = Attended<B, AdditiveAttentionInputs<B>>;

/// The inputs of the kernel.
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
        modifiers: modifiers::<B, E>(&inputs.modifiers),
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
    let (context, statistics, weights) = with_compiled!(dtype, E => {
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

/// The gradients of queries, keys, values, weight and modifiers that are wanted.
pub(in crate::ops) fn backward<B: CpuBackend>(
    saved: Saved<B>,
    context_gradient: FloatTensor<B>,
    asked: Asked<7>,
) -> [Gradient<B>; 7] {
    // Behind a server the inputs are those from before the forward pass.
    let inputs = readable(saved.inputs);
    let saved = Attended { inputs, ..saved };
    let context_gradient = B::readable(context_gradient);
    let dtype = context_gradient.dtype();
    with_compiled!(dtype, E => {
        let kernel = kernel::<B, E>(&saved.inputs, &saved.seed);
        let outputs = outputs::<B, E, _>(&saved, &context_gradient);
        if asked.deferral == Deferral::Allowed && kernel.is_decode() {
            return deferred(&saved.inputs, &kernel, &outputs, &context_gradient, asked.wanted);
        }
        let AdditiveAttentionInputs { queries, keys, values, weight, modifiers, .. } = &saved.inputs;
        let inputs = [queries, keys, values, weight];
        let [of_queries, of_keys, of_values, of_weight, of_modifiers @ ..] = asked.wanted;
        let wanted = [of_queries, of_keys, of_values, of_weight];
        let [mut to_queries, mut to_keys, mut to_values, mut to_weight] =
            gradient_buffers::<B, E, 4>(inputs, wanted);
        let mut to_modifiers = ModifierBuffers::new(modifiers, of_modifiers);
        let gradients = AdditiveAttentionGradients {
            queries: to_queries.as_deref_mut(),
            keys: to_keys.as_deref_mut(),
            values: to_values.as_deref_mut(),
            weight: to_weight.as_deref_mut(),
            modifiers: to_modifiers.gradients(),
        };
        kernel.backward(Level::current(), &outputs, gradients);
        let [of_bias, of_relative_bias, of_sinks] = to_modifiers.into_gradients();
        [
            gradient::<B, E>(to_queries, dtype, queries),
            gradient::<B, E>(to_keys, dtype, keys),
            gradient::<B, E>(to_values, dtype, values),
            gradient::<B, E>(to_weight, dtype, weight),
            of_bias,
            of_relative_bias,
            of_sinks,
        ]
    })
}

/// The wanted gradients of queries and weight, and the deposit for the wanted gradients of keys and values.
fn deferred<B: CpuBackend, E: AttentionElement>(
    inputs: &AdditiveAttentionInputs<B>,
    kernel: &kernels::AdditiveAttentionInputs<E>,
    outputs: &AttentionOutputs<E>,
    context_gradient: &FloatTensor<B>,
    // The kernels of decoding take no modifiers.
    [of_queries, of_keys, of_values, of_weight, ..]: [bool; 7],
) -> [Gradient<B>; 7] {
    let (queries, weight) = (&inputs.queries, &inputs.weight);
    let pairs = pairs_shape::<B>(queries, &inputs.keys);
    let [mut to_queries, mut to_weight] =
        gradient_buffers::<B, E, 2>([queries, weight], [of_queries, of_weight]);
    let [mut scores, mut weights] =
        [of_keys, of_values].map(|is_wanted| is_wanted.then(|| zeros::<E>(&pairs)));
    let gradients = AdditiveDeferredGradients {
        queries: to_queries.as_deref_mut(),
        weight: to_weight.as_deref_mut(),
        scores: scores.as_deref_mut(),
        weights: weights.as_deref_mut(),
    };
    kernel.backward_deferred(Level::current(), outputs, gradients);
    let scores = scores.map(|scores| DeferredPairs::Additive {
        pairs: tensor::<B, E>(scores, pairs.clone(), E::DTYPE, queries),
        queries: queries.clone(),
        weight: weight.clone(),
    });
    let weights = weights.map(|weights| DeferredPairs::Products {
        factor: 1.0,
        pairs: tensor::<B, E>(weights, pairs, E::DTYPE, queries),
        queries: context_gradient.clone(),
    });
    let dtype = context_gradient.dtype();
    [
        gradient::<B, E>(to_queries, dtype, queries),
        pairs_gradient(scores),
        pairs_gradient(weights),
        gradient::<B, E>(to_weight, dtype, weight),
        Gradient::Absent,
        Gradient::Absent,
        Gradient::Absent,
    ]
}
