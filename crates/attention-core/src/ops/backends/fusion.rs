//! The kernels of attention with Burn's fusion: each call is an operation of its own in fusion's queue.

use burn::backend::TensorMetadata;
use burn::backend::fusion::custom::{Float, TensorSpec};
use burn::backend::fusion::{Fusion, FusionBackend};
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_fused_layers::harness::fusion::{queue, spec_of};
use burn_fused_layers::harness::kernel::{Asked, Gradient, Kernel};
use burn_fused_layers::harness::results::{as_gradients, gradient_specs, only, whole};

use crate::ops::attention::Attended;
use crate::ops::attention_ops::{AttentionBackend, Kernels};
use crate::ops::host::pairs_shape;
use crate::ops::{AdditiveScoreInputs, AttentionInputs, MaskedSoftmaxInputs};

/// The kernels of `B`, one line per operation.
pub(super) const fn kernels<B: FusionBackend + AttentionBackend>() -> Kernels<Fusion<B>> {
    Kernels {
        runs_on: B::KERNELS.runs_on,
        attention: match B::KERNELS.attention {
            Some(_) => Some(Kernel {
                infer: |inputs| train::<B>(inputs, [false; 7]).0,
                train: train::<B>,
                backward: backward::<B>,
            }),
            None => None,
        },
        additive_score: match B::KERNELS.additive_score {
            Some(_) => Some(Kernel {
                infer: |inputs| score_forward(inputs).0,
                train: |inputs, _| score_forward(inputs),
                backward: score_backward::<B>,
            }),
            None => None,
        },
        masked_softmax: match B::KERNELS.masked_softmax {
            Some(_) => Some(Kernel {
                infer: |inputs| softmax_forward(inputs).0,
                train: |inputs, _| softmax_forward(inputs),
                backward: softmax_backward::<B>,
            }),
            None => None,
        },
        ..Kernels::NONE
    }
}

fn train<B: FusionBackend + AttentionBackend>(
    inputs: AttentionInputs<Fusion<B>>,
    wanted: [bool; 7],
) -> (FloatTensor<Fusion<B>>, Attended<Fusion<B>>) {
    let [context, statistics] = inputs.output_shapes();
    let mut specs = vec![
        TensorSpec::new(context, inputs.queries.dtype()),
        TensorSpec::new(statistics, DType::F32),
    ];
    if inputs.dropout != 0.0 {
        specs.push(TensorSpec::new([4].into(), DType::F32));
    }
    let run = move |inputs, _| {
        let kernel = B::KERNELS.attention.expect("it has one");
        let (context, saved) = (kernel.train)(inputs, wanted);
        let mut results = vec![context, saved.statistics];
        results.extend(saved.seed);
        results
    };
    let name = inputs.operation().name();
    let mut results =
        queue::<B, AttentionInputs<B>>(name, inputs.clone(), Vec::new(), specs, run).into_iter();
    let mut next = || results.next();
    let (context, statistics) = next().zip(next()).expect("as many as were asked for");
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics,
        weights: None,
        seed: next(),
    };
    (context, saved)
}

fn backward<B: FusionBackend + AttentionBackend>(
    saved: Attended<Fusion<B>>,
    gradient: FloatTensor<Fusion<B>>,
    _asked: Asked<7>,
) -> [Gradient<Fusion<B>>; 7] {
    let specs = gradient_specs::<Fusion<B>, _, _, 7>(&saved.inputs, spec_of::<B>);
    let mut tensors = vec![gradient, saved.context, saved.statistics];
    tensors.extend(saved.seed);
    let run = |inputs, tensors: Vec<_>| {
        let kernel = B::KERNELS.attention.expect("it has one");
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().expect("as many as were given");
        let (gradient, context, statistics) = (next(), next(), next());
        let saved = Attended {
            inputs,
            context,
            statistics,
            weights: None,
            seed: tensors.next(),
        };
        whole((kernel.backward)(saved, gradient, Asked::ALL))
    };
    let wanted = specs.iter().flatten().cloned().collect();
    let name = saved.inputs.operation().name();
    let results = queue::<B, AttentionInputs<B>>(name, saved.inputs, tensors, wanted, run);
    as_gradients(specs, results)
}

fn score_forward<B: FusionBackend + AttentionBackend>(
    inputs: AdditiveScoreInputs<Fusion<B>>,
) -> (FloatTensor<Fusion<B>>, AdditiveScoreInputs<Fusion<B>>) {
    let shape = pairs_shape::<Fusion<B>>(&inputs.queries, &inputs.keys);
    let spec = TensorSpec::new(shape, inputs.queries.dtype());
    let run = |inputs, _| {
        let kernel = B::KERNELS.additive_score.expect("it has one");
        vec![(kernel.infer)(inputs)]
    };
    let name = "additive_score";
    let results =
        queue::<B, AdditiveScoreInputs<B>>(name, inputs.clone(), Vec::new(), vec![spec], run);
    (only(results), inputs)
}

fn score_backward<B: FusionBackend + AttentionBackend>(
    inputs: AdditiveScoreInputs<Fusion<B>>,
    gradient: FloatTensor<Fusion<B>>,
    _asked: Asked<3>,
) -> [Gradient<Fusion<B>>; 3] {
    let specs = gradient_specs::<Fusion<B>, _, _, 3>(&inputs, spec_of::<B>);
    let run = |inputs, tensors| {
        let kernel = B::KERNELS.additive_score.expect("it has one");
        whole((kernel.backward)(inputs, only(tensors), Asked::ALL))
    };
    let wanted = specs.iter().flatten().cloned().collect();
    let name = "additive_score";
    let results = queue::<B, AdditiveScoreInputs<B>>(name, inputs, vec![gradient], wanted, run);
    as_gradients(specs, results)
}

fn softmax_forward<B: FusionBackend + AttentionBackend>(
    inputs: MaskedSoftmaxInputs<Fusion<B>>,
) -> (FloatTensor<Fusion<B>>, FloatTensor<Fusion<B>>) {
    let spec = spec_of::<B>(&inputs.scores);
    let run = |inputs, _| {
        let kernel = B::KERNELS.masked_softmax.expect("it has one");
        vec![(kernel.infer)(inputs)]
    };
    let name = "masked_softmax";
    let results = queue::<B, MaskedSoftmaxInputs<B>>(name, inputs, Vec::new(), vec![spec], run);
    let weights = only(results);
    (weights.clone(), weights)
}

fn softmax_backward<B: FusionBackend + AttentionBackend>(
    weights: FloatTensor<Fusion<B>>,
    gradient: FloatTensor<Fusion<B>>,
    _asked: Asked<1>,
) -> [Gradient<Fusion<B>>; 1] {
    let spec = spec_of::<B>(&weights);
    let run = |weights, tensors| {
        let kernel = B::KERNELS.masked_softmax.expect("it has one");
        whole((kernel.backward)(weights, only(tensors), Asked::ALL))
    };
    let name = "masked_softmax";
    let results = queue::<B, Float>(name, weights, vec![gradient], vec![spec], run);
    [Gradient::Whole(only(results))]
}
