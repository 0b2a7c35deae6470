//! Runs in the kernels of a GPU.

use attention_gpu::{self as kernels, AttentionOutputs, Dropout, Score, Wanted, cast};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use burn_fused_layers::harness::optional::OptionalTensor;

use super::{Attended, AttentionInputs};
use crate::ops::dropout::draw_seed;
use crate::ops::gpu::{device_mask, readable};
use crate::ops::key_heads::{with_axes_of, with_heads};

/// The kernels' inputs.
fn kernel(
    inputs: &AttentionInputs<CubeBackend>,
    seed: Option<CubeTensor>,
) -> kernels::AttentionInputs {
    let in_f32 = |tensor: &OptionalTensor<CubeBackend>| {
        let tensor = tensor.as_option().cloned();
        tensor.map(|tensor| cast(tensor, DType::F32))
    };
    let all = [&inputs.queries, &inputs.keys, &inputs.values];
    let [queries, keys, values] = all.map(|tensor| with_heads::<CubeBackend>(tensor.clone()));
    let [_, _, num_keys, _] = keys.shape().dims();
    let probability = inputs.dropout;
    kernels::AttentionInputs {
        mask: device_mask(&inputs.mask, &queries, num_keys),
        queries,
        keys,
        values,
        score: match in_f32(&inputs.weight) {
            Some(weight) => Score::Additive { weight },
            None => Score::DotProduct {
                scale: inputs.scale,
            },
        },
        modifiers: kernels::ScoreModifiers {
            soft_cap: inputs.modifiers.soft_cap,
            bias: in_f32(&inputs.modifiers.bias),
            relative_bias: in_f32(&inputs.modifiers.relative_bias),
            sinks: in_f32(&inputs.modifiers.sinks),
        },
        dropout: seed.map(|seed| Dropout { probability, seed }),
    }
}

/// The context.
pub(in crate::ops) fn infer(inputs: AttentionInputs<CubeBackend>) -> CubeTensor {
    train(inputs, [false; 7]).0
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn train(
    inputs: AttentionInputs<CubeBackend>,
    _wanted: [bool; 7],
) -> (CubeTensor, Attended<CubeBackend>) {
    let inputs = readable(inputs);
    let seed = draw_seed::<CubeBackend>(inputs.dropout, &inputs.queries);
    let outputs = kernel(&inputs, seed.clone()).forward();
    let [shape, _] = inputs.output_shapes();
    let context = cast(outputs.context, inputs.queries.dtype());
    let context = with_axes_of::<CubeBackend>(context, shape);
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics: outputs.statistics,
        weights: None,
        seed,
    };
    (context, saved)
}

/// The requested gradients of queries, keys, values, weight and modifiers.
pub(in crate::ops) fn backward(
    saved: Attended<CubeBackend>,
    gradient: CubeTensor,
    asked: Asked<7>,
) -> [Gradient<CubeBackend>; 7] {
    // With fusion, these are the inputs from before the forward pass.
    let inputs = readable(saved.inputs);
    let outputs = AttentionOutputs {
        context: with_heads::<CubeBackend>(saved.context),
        statistics: saved.statistics,
    };
    let gradient = with_heads::<CubeBackend>(gradient);
    let [queries, keys, values, weight, bias, relative_bias, sinks] = asked.wanted;
    let wanted = Wanted {
        queries,
        keys,
        values,
        weight,
        bias,
        relative_bias,
        sinks,
    };
    let gradients = kernel(&inputs, saved.seed).backward(&outputs, gradient, wanted);
    let modifiers = &inputs.modifiers;
    [
        (gradients.queries, Some(&inputs.queries)),
        (gradients.keys, Some(&inputs.keys)),
        (gradients.values, Some(&inputs.values)),
        (gradients.weight, inputs.weight.as_option()),
        (gradients.bias, modifiers.bias.as_option()),
        (gradients.relative_bias, modifiers.relative_bias.as_option()),
        (gradients.sinks, modifiers.sinks.as_option()),
    ]
    .map(|(gradient, input)| match gradient.zip(input) {
        Some((gradient, input)) => {
            let gradient = cast(gradient, input.dtype());
            Gradient::Whole(with_axes_of::<CubeBackend>(gradient, input.shape()))
        }
        None => Gradient::Absent,
    })
}
