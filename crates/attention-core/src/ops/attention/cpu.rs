//! Runs in the kernels of `attention-kernels`.

use attention_kernels::{
    self as kernels, AttentionGradients, AttentionOutputs, Dropout, KeyValueGradients,
    ModifierGradients, Score,
};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::deferred_gradients::Deferral;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use burn_fused_layers::harness::seed::seed_of_uniform;
use cpu_kernels::{Buffer, Level};

use super::{Attended, AttentionInputs};
use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::dropout::draw_seed;
use crate::ops::host::{
    AttentionElement, CpuBackend, CpuReal, elements, on_host, pairs_shape, readable, rows, tensor,
    unwritten, whole, with_compiled, zeros,
};
use crate::ops::key_heads::with_heads;

/// The kernel's inputs.
fn kernel<'a, B: CpuBackend, E: AttentionElement>(
    inputs: &'a AttentionInputs<B>,
    seed: Option<&FloatTensor<B>>,
) -> kernels::AttentionInputs<'a, E> {
    let modifiers = &inputs.modifiers;
    kernels::AttentionInputs {
        queries: rows::<B, E>(&inputs.queries),
        keys: rows::<B, E>(&inputs.keys),
        values: rows::<B, E>(&inputs.values),
        score: match inputs.weight.as_option() {
            weight if let Some(kernel) = &inputs.pairwise => Score::Pairwise {
                kernel: &**kernel,
                weight: weight.map(elements::<B, E>),
            },
            Some(weight) => Score::Additive {
                weight: elements::<B, E>(weight),
                packed_keys: inputs.packed_keys.as_option().map(elements::<B, E>),
            },
            None => Score::DotProduct {
                scale: E::from_f64(inputs.scale),
            },
        },
        modifiers: kernels::ScoreModifiers {
            soft_cap: modifiers.soft_cap.map(E::from_f64),
            bias: modifiers.bias.as_option().map(rows::<B, E>),
            relative_bias: modifiers.relative_bias.as_option().map(rows::<B, E>),
            sinks: modifiers.sinks.as_option().map(elements::<B, E>),
            score_mod: modifiers.score_mod.as_deref(),
        },
        mask: on_host(&inputs.mask),
        // Drawn from the backend's generator: four elements in `[0, 1)`.
        dropout: seed.map(|seed| {
            let drawn = elements::<B, f32>(seed).iter().copied();
            Dropout::new(inputs.dropout, seed_of_uniform(drawn))
        }),
    }
}

/// The context.
pub(in crate::ops) fn infer<B: CpuBackend>(inputs: AttentionInputs<B>) -> FloatTensor<B> {
    let inputs = readable(inputs);
    let seed = draw_seed::<B>(inputs.dropout, &inputs.queries);
    let [shape, statistics] = inputs.output_shapes();
    let dtype = inputs.queries.dtype();
    with_compiled!(dtype, E => {
        let mut context = unwritten::<E>(&shape);
        let mut statistics = unwritten::<f64>(&statistics);
        let lse = statistics.as_chunks_mut().0;
        kernel::<B, E>(&inputs, seed.as_ref()).forward(Level::current(), &mut context, lse);
        tensor::<B, E>(context, shape, dtype, &inputs.queries)
    })
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn train<B: CpuBackend>(
    inputs: AttentionInputs<B>,
    _wanted: [bool; 7],
) -> (FloatTensor<B>, Attended<B>) {
    let inputs = readable(inputs);
    let seed = draw_seed::<B>(inputs.dropout, &inputs.queries);
    let [context_shape, statistics_shape] = inputs.output_shapes();
    let dtype = inputs.queries.dtype();
    let (context, statistics, weights) = with_compiled!(dtype, E => {
        let mut context = unwritten::<E>(&context_shape);
        let mut statistics = unwritten::<f64>(&statistics_shape);
        let lse = statistics.as_chunks_mut().0;
        let kernel = kernel::<B, E>(&inputs, seed.as_ref());
        let weights = if matches!(kernel.score, Score::Additive { .. }) && kernel.is_decode() {
            let shape = pairs_shape::<B>(&inputs.queries, &inputs.keys);
            let mut weights = unwritten::<E>(&shape);
            kernel.forward_saving(Level::current(), &mut context, lse, &mut weights);
            Some(tensor::<B, E>(weights, shape, E::DTYPE, &inputs.queries))
        } else {
            kernel.forward(Level::current(), &mut context, lse);
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

/// The requested gradients of queries, keys, values, weight and modifiers.
pub(in crate::ops) fn backward<B: CpuBackend>(
    saved: Attended<B>,
    context_gradient: FloatTensor<B>,
    asked: Asked<7>,
) -> [Gradient<B>; 7] {
    let context_gradient = B::readable(context_gradient);
    let dtype = context_gradient.dtype();
    with_compiled!(dtype, E => gradients::<B, E>(&saved, &context_gradient, asked))
}

fn gradients<B: CpuBackend, E: AttentionElement>(
    saved: &Attended<B>,
    context_gradient: &FloatTensor<B>,
    asked: Asked<7>,
) -> [Gradient<B>; 7] {
    let inputs = &saved.inputs;
    let modifiers = &inputs.modifiers;
    let kernel = kernel::<B, E>(inputs, saved.seed.as_ref());
    let outputs = AttentionOutputs {
        context: rows::<B, E>(&saved.context),
        lse: elements::<B, f64>(&saved.statistics).as_chunks().0,
        weights: saved.weights.as_ref().map(elements::<B, E>),
        context_gradient: rows::<B, E>(context_gradient),
    };
    let [bias, relative_bias, sinks] =
        [&modifiers.bias, &modifiers.relative_bias, &modifiers.sinks].map(|of| of.as_option());
    let tensors = [
        Some(&inputs.queries),
        Some(&inputs.keys),
        Some(&inputs.values),
        inputs.weight.as_option(),
        bias,
        relative_bias,
        sinks,
    ];
    // For keys and values, keeps the pairs that make their gradients instead; not for a user's own term.
    let is_deferred =
        asked.deferral == Deferral::Allowed && kernel.is_decode() && inputs.pairwise.is_none();
    let pairs_shape = pairs_shape::<B>(&inputs.queries, &inputs.keys);
    let mut buffers: [Option<Buffer<E>>; 7] = std::array::from_fn(|n| {
        let tensor = tensors[n].filter(|_| asked.wanted[n])?;
        Some(match n {
            1 | 2 if is_deferred => zeros(&pairs_shape),
            _ => zeros(&tensor.shape()),
        })
    });
    let [queries, keys, values, weight, bias, relative_bias, sinks] =
        buffers.each_mut().map(|buffer| buffer.as_deref_mut());
    let gradients = AttentionGradients {
        queries,
        keys_and_values: match is_deferred {
            true => KeyValueGradients::Deferred {
                scores: keys,
                weights: values,
            },
            false => KeyValueGradients::Added { keys, values },
        },
        modifiers: ModifierGradients {
            bias,
            relative_bias,
            sinks,
        },
        weight,
    };
    kernel.backward(Level::current(), &outputs, gradients);
    let dtype = context_gradient.dtype();
    std::array::from_fn(|n| {
        let (Some(buffer), Some(input)) = (buffers[n].take(), tensors[n]) else {
            return Gradient::Absent;
        };
        if is_deferred && (n == 1 || n == 2) {
            let pairs = tensor::<B, E>(buffer, pairs_shape.clone(), E::DTYPE, &inputs.queries);
            let deposit = match n {
                1 => of_scores(inputs, pairs),
                _ => DeferredPairs::Products {
                    factor: 1.0,
                    pairs,
                    queries: with_heads::<B>(context_gradient.clone()),
                },
            };
            return Gradient::Deferred(Box::new(deposit));
        }
        // Modifiers may be more precise than the other tensors.
        let dtype = if n < 4 { dtype } else { input.dtype() };
        whole::<B, E>(buffer, dtype, input)
    })
}

/// A step's deposit for the gradient of the keys, from the gradients of the scores.
fn of_scores<B: CpuBackend>(
    inputs: &AttentionInputs<B>,
    pairs: FloatTensor<B>,
) -> DeferredPairs<B> {
    let queries = with_heads::<B>(inputs.queries.clone());
    match inputs.weight.as_option() {
        Some(weight) => DeferredPairs::Additive {
            pairs,
            queries,
            weight: weight.clone(),
        },
        None => DeferredPairs::Products {
            factor: inputs.scale,
            pairs,
            queries,
        },
    }
}
