//! The kernels of attention behind Burn's fusion: each call is an operation of its own in fusion's queue.

use burn::backend::TensorMetadata;
use burn::backend::fusion::custom::{FusionValueAdapter, TensorSpec};
use burn::backend::fusion::{Fusion, FusionBackend};
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_fused_layers::harness::fusion::{queue, spec_of};
use burn_fused_layers::harness::kernel::{Asked, Gradient, Kernel};
use burn_fused_layers::harness::results::{as_gradients, gradient_specs, only, whole};

use super::fused_operation::FusedOperation;
use crate::ops::attention_backend::{AttentionBackend, Kernels};
use crate::ops::fused::{self, Attended};
use crate::ops::{
    AdditiveAttentionInputs, AdditiveScoreInputs, DotProductAttentionInputs, MaskedSoftmaxInputs,
};

/// The kernels of `B`, a line for each operation; none if they run at once only.
pub(super) const fn kernels<B: FusionBackend + AttentionBackend>() -> Kernels<Fusion<B>> {
    if !B::KERNELS.may_wait {
        return Kernels::NONE;
    }
    Kernels {
        runs_on: B::KERNELS.runs_on,
        statistics: B::KERNELS.statistics,
        additive_attention: match B::KERNELS.additive_attention {
            Some(_) => Some(Kernel {
                forward: forward::<B, AdditiveAttentionInputs<B>, _, 7>,
                backward: backward::<B, AdditiveAttentionInputs<B>, _, 7>,
            }),
            None => None,
        },
        dot_product_attention: match B::KERNELS.dot_product_attention {
            Some(_) => Some(Kernel {
                forward: forward::<B, DotProductAttentionInputs<B>, _, 6>,
                backward: backward::<B, DotProductAttentionInputs<B>, _, 6>,
            }),
            None => None,
        },
        additive_score: match B::KERNELS.additive_score {
            Some(_) => Some(Kernel {
                forward: score_forward::<B>,
                backward: score_backward::<B>,
            }),
            None => None,
        },
        masked_softmax: match B::KERNELS.masked_softmax {
            Some(_) => Some(Kernel {
                forward: softmax_forward::<B>,
                backward: softmax_backward::<B>,
            }),
            None => None,
        },
        ..Kernels::NONE
    }
}

fn forward<B, I, F, const N: usize>(inputs: F) -> (FloatTensor<Fusion<B>>, Attended<Fusion<B>, F>)
where
    B: FusionBackend + AttentionBackend,
    I: FusionValueAdapter<B, Inner = I, Fused = F> + FusedOperation<B, N>,
    I::Input: Send + Sync + 'static,
    F: FusedOperation<Fusion<B>, N> + Clone,
{
    let [context, statistics] = fused::output_shapes::<Fusion<B>>(inputs.first(), inputs.values());
    let mut specs = vec![
        TensorSpec::new(context, inputs.first().dtype()),
        TensorSpec::new(statistics, B::KERNELS.statistics),
    ];
    if inputs.dropout() != 0.0 {
        specs.push(TensorSpec::new([4].into(), DType::F32));
    }
    let run = |inputs, _| {
        let kernel = I::kernel().expect("it has one");
        let (context, saved) = (kernel.forward)(inputs);
        let mut results = vec![context, saved.statistics];
        results.extend(saved.seed);
        results
    };
    let results = queue::<B, I>(I::FORWARD, inputs.clone(), Vec::new(), specs, run);
    Attended::of_results(inputs, results)
}

fn backward<B, I, F, const N: usize>(
    saved: Attended<Fusion<B>, F>,
    gradient: FloatTensor<Fusion<B>>,
    _asked: Asked<N>,
) -> [Gradient<Fusion<B>>; N]
where
    B: FusionBackend + AttentionBackend,
    I: FusionValueAdapter<B, Inner = I, Fused = F> + FusedOperation<B, N>,
    I::Input: Send + Sync + 'static,
    F: FusedOperation<Fusion<B>, N> + Clone,
{
    let specs = gradient_specs::<Fusion<B>, F, _, N>(&saved.inputs, spec_of::<B>);
    let mut tensors = vec![gradient, saved.context, saved.statistics];
    tensors.extend(saved.seed);
    let run = |inputs, tensors: Vec<_>| {
        let kernel = I::kernel().expect("it has one");
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
    let results = queue::<B, I>(I::FORWARD, saved.inputs, tensors, wanted, run);
    as_gradients(specs, results)
}

fn score_forward<B: FusionBackend + AttentionBackend>(
    inputs: AdditiveScoreInputs<Fusion<B>>,
) -> (FloatTensor<Fusion<B>>, AdditiveScoreInputs<Fusion<B>>) {
    let shape = fused::pairs_shape::<Fusion<B>>(&inputs.queries, &inputs.keys);
    let spec = TensorSpec::new(shape, inputs.queries.dtype());
    let run = |inputs, _| {
        let kernel = B::KERNELS.additive_score.expect("it has one");
        vec![(kernel.forward)(inputs).0]
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
        vec![(kernel.forward)(inputs).0]
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
    use burn::backend::fusion::custom::Float;

    let spec = spec_of::<B>(&weights);
    let run = |weights, tensors| {
        let kernel = B::KERNELS.masked_softmax.expect("it has one");
        whole((kernel.backward)(weights, only(tensors), Asked::ALL))
    };
    let name = "masked_softmax";
    let results = queue::<B, Float>(name, weights, vec![gradient], vec![spec], run);
    [Gradient::Whole(only(results))]
}
