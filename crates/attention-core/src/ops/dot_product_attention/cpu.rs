//! By the kernel of `attention-kernels`.

use attention_kernels::{
    self as kernels, AttentionOutputs, DotProductAttentionGradients, DotProductDeferredGradients,
};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::deferred_gradients::Deferral;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::Level;

use super::DotProductAttentionInputs;
use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::dropout::draw_seed;
use crate::ops::fused::Attended;
use crate::ops::fused::cpu::{
    ModifierBuffers, dropout, gradient, gradient_buffers, modifiers, outputs, pairs_gradient,
};
use crate::ops::fused::{output_shapes, pairs_shape};
use crate::ops::host::{
    AttentionElement, CpuBackend, CpuReal, on_host, readable, rows, tensor, unwritten,
    with_compiled, zeros,
};

type Saved<B> = Attended<B, DotProductAttentionInputs<B>>;

/// The inputs of the kernel.
fn kernel<'a, B: CpuBackend, E: AttentionElement>(
    inputs: &'a DotProductAttentionInputs<B>,
    seed: &Option<FloatTensor<B>>,
) -> kernels::DotProductAttentionInputs<'a, E> {
    kernels::DotProductAttentionInputs {
        queries: rows::<B, E>(&inputs.queries),
        keys: rows::<B, E>(&inputs.keys),
        values: rows::<B, E>(&inputs.values),
        modifiers: modifiers::<B, E>(&inputs.modifiers),
        mask: on_host(&inputs.mask),
        scale: E::from_f64(inputs.scale),
        dropout: dropout::<B>(inputs.dropout, seed),
    }
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: DotProductAttentionInputs<B>,
) -> (FloatTensor<B>, Saved<B>) {
    let inputs = readable(inputs);
    let seed = draw_seed::<B>(inputs.dropout, &inputs.queries);
    let [context_shape, statistics_shape] = output_shapes::<B>(&inputs.queries, &inputs.values);
    let dtype = inputs.queries.dtype();
    let (context, statistics) = with_compiled!(dtype, E => {
        let mut context = unwritten::<E>(&context_shape);
        let mut statistics = unwritten::<f64>(&statistics_shape);
        let lse = statistics.as_chunks_mut().0;
        kernel::<B, E>(&inputs, &seed).forward(Level::current(), &mut context, lse);
        (
            tensor::<B, E>(context, context_shape, dtype, &inputs.queries),
            tensor::<B, f64>(statistics, statistics_shape, f64::DTYPE, &inputs.queries),
        )
    });
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics,
        weights: None,
        seed,
    };
    (context, saved)
}

/// The gradients of queries, keys, values and modifiers that are wanted.
pub(in crate::ops) fn backward<B: CpuBackend>(
    saved: Saved<B>,
    context_gradient: FloatTensor<B>,
    asked: Asked<6>,
) -> [Gradient<B>; 6] {
    // Behind a server the inputs are those from before the forward pass.
    let inputs = readable(saved.inputs);
    let saved = Attended { inputs, ..saved };
    let context_gradient = B::readable(context_gradient);
    let dtype = context_gradient.dtype();
    let [of_queries, of_keys, of_values, of_modifiers @ ..] = asked.wanted;
    with_compiled!(dtype, E => {
        let kernel = kernel::<B, E>(&saved.inputs, &saved.seed);
        let outputs = outputs::<B, E, _>(&saved, &context_gradient);
        if asked.deferral == Deferral::Allowed && kernel.is_decode() {
            return deferred(&saved.inputs, &kernel, &outputs, &context_gradient, asked.wanted);
        }
        let DotProductAttentionInputs { queries, keys, values, modifiers, .. } = &saved.inputs;
        let wanted = [of_queries, of_keys, of_values];
        let [mut to_queries, mut to_keys, mut to_values] =
            gradient_buffers::<B, E, 3>([queries, keys, values], wanted);
        let mut to_modifiers = ModifierBuffers::new(modifiers, of_modifiers);
        let gradients = DotProductAttentionGradients {
            queries: to_queries.as_deref_mut(),
            keys: to_keys.as_deref_mut(),
            values: to_values.as_deref_mut(),
            modifiers: to_modifiers.gradients(),
        };
        kernel.backward(Level::current(), &outputs, gradients);
        let [of_bias, of_relative_bias, of_sinks] = to_modifiers.into_gradients();
        [
            gradient::<B, E>(to_queries, dtype, queries),
            gradient::<B, E>(to_keys, dtype, keys),
            gradient::<B, E>(to_values, dtype, values),
            of_bias,
            of_relative_bias,
            of_sinks,
        ]
    })
}

/// The wanted gradients of queries and modifiers, and the deposit for the wanted gradients of keys and values.
fn deferred<B: CpuBackend, E: AttentionElement>(
    inputs: &DotProductAttentionInputs<B>,
    kernel: &kernels::DotProductAttentionInputs<E>,
    outputs: &AttentionOutputs<E>,
    context_gradient: &FloatTensor<B>,
    [of_queries, of_keys, of_values, of_modifiers @ ..]: [bool; 6],
) -> [Gradient<B>; 6] {
    let queries = &inputs.queries;
    let pairs = pairs_shape::<B>(queries, &inputs.keys);
    let mut to_queries = of_queries.then(|| zeros::<E>(&queries.shape()));
    let mut to_modifiers = ModifierBuffers::new(&inputs.modifiers, of_modifiers);
    let [mut scores, mut weights] =
        [of_keys, of_values].map(|is_wanted| is_wanted.then(|| zeros::<E>(&pairs)));
    let gradients = DotProductDeferredGradients {
        queries: to_queries.as_deref_mut(),
        scores: scores.as_deref_mut(),
        weights: weights.as_deref_mut(),
        modifiers: to_modifiers.gradients(),
    };
    kernel.backward_deferred(Level::current(), outputs, gradients);
    let products = |factor, elements, queries: &FloatTensor<B>| DeferredPairs::Products {
        factor,
        pairs: tensor::<B, E>(elements, pairs.clone(), E::DTYPE, queries),
        queries: queries.clone(),
    };
    let [of_bias, of_relative_bias, of_sinks] = to_modifiers.into_gradients();
    [
        gradient::<B, E>(to_queries, context_gradient.dtype(), queries),
        pairs_gradient(scores.map(|scores| products(inputs.scale, scores, queries))),
        pairs_gradient(weights.map(|weights| products(1.0, weights, context_gradient))),
        of_bias,
        of_relative_bias,
        of_sinks,
    ]
}
