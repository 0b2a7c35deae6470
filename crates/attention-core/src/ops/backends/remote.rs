//! The kernels of attention that servers run for their clients: each is one call forward, and one backward.
//!
//! An additive attention leaves its packed keys with the client, which has none. No gradient is deferred: whole ones
//! stay on the server, where they are added.

use burn::backend::TensorMetadata;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{Device, FloatTensor};
use burn::tensor::DType;
use burn_fused_layers::harness::kernel::{Asked, Gradient, Kernel};
use burn_fused_layers::harness::remote::{
    BackendRouter, CustomOpRegistry, Pack, Results, RouterChannel, SAID_SO, Unpack, call,
    float_spec, runs_on, serve, set_of, wanted_specs,
};
use burn_fused_layers::harness::results::{as_gradients, only};
use burn_fused_layers::paths::Operation;

use super::fused_operation::FusedOperation;
use super::remote_inputs::{Backward, ScoreBackward, SoftmaxBackward};
use crate::ops::attention_backend::{AttentionBackend, Kernels};
use crate::ops::fused::{self, Attended};
use crate::ops::{
    AdditiveAttentionInputs, AdditiveScoreInputs, DotProductAttentionInputs, MaskedSoftmaxInputs,
};

type Router<C> = BackendRouter<C>;

/// The kernels, a line for each operation.
pub(super) const fn kernels<C: RouterChannel>() -> Kernels<Router<C>> {
    Kernels {
        runs_on,
        may_wait: false,
        additive_attention: Some(Kernel {
            forward: forward::<C, AdditiveAttentionInputs<Router<C>>, 7>,
            backward: backward::<C, AdditiveAttentionInputs<Router<C>>, 7>,
        }),
        dot_product_attention: Some(Kernel {
            forward: forward::<C, DotProductAttentionInputs<Router<C>>, 6>,
            backward: backward::<C, DotProductAttentionInputs<Router<C>>, 6>,
        }),
        additive_score: Some(Kernel {
            forward: score_forward,
            backward: score_backward,
        }),
        masked_softmax: Some(Kernel {
            forward: softmax_forward,
            backward: softmax_backward,
        }),
        ..Kernels::NONE
    }
}

/// Has a server run them.
pub(crate) fn register<B: BackendIr + AttentionBackend>(registry: &mut CustomOpRegistry<B>) {
    register_attention::<B, AdditiveAttentionInputs<B>, 7>(registry);
    register_attention::<B, DotProductAttentionInputs<B>, 6>(registry);
    let operation = Operation::AdditiveScore;
    serve(
        registry,
        (operation, SCORE),
        |inputs: AdditiveScoreInputs<B>| {
            let kernel = B::KERNELS.additive_score.expect(SAID_SO);
            Results::of([(kernel.forward)(inputs).0])
        },
    );
    serve(
        registry,
        (operation, SCORE_BACKWARD),
        |sent: ScoreBackward<B>| {
            let kernel = B::KERNELS.additive_score.expect(SAID_SO);
            let asked = Asked::whole(sent.wanted);
            Results::of_gradients((kernel.backward)(sent.inputs, sent.gradient, asked))
        },
    );
    let operation = Operation::MaskedSoftmax;
    serve(
        registry,
        (operation, SOFTMAX),
        |inputs: MaskedSoftmaxInputs<B>| {
            let kernel = B::KERNELS.masked_softmax.expect(SAID_SO);
            Results::of([(kernel.forward)(inputs).0])
        },
    );
    serve(
        registry,
        (operation, SOFTMAX_BACKWARD),
        |sent: SoftmaxBackward<B>| {
            let kernel = B::KERNELS.masked_softmax.expect(SAID_SO);
            let gradients = (kernel.backward)(sent.weights, sent.gradient, Asked::ALL);
            Results::of_gradients(gradients)
        },
    );
}

/// The operations that a backend has kernels for that [`register`] registers.
pub(crate) fn kernels_of<B: AttentionBackend>(device: &Device<B>, dtype: DType) -> u32 {
    let kernels = B::KERNELS;
    let has = [
        (
            Operation::AdditiveAttention,
            kernels.additive_attention.is_some(),
        ),
        (
            Operation::DotProductAttention,
            kernels.dot_product_attention.is_some(),
        ),
        (Operation::AdditiveScore, kernels.additive_score.is_some()),
        (Operation::MaskedSoftmax, kernels.masked_softmax.is_some()),
    ];
    set_of(has, |operation| (kernels.runs_on)(device, dtype, operation))
}

const SCORE: &str = "additive_score";
const SCORE_BACKWARD: &str = "additive_score.backward";
const SOFTMAX: &str = "masked_softmax";
const SOFTMAX_BACKWARD: &str = "masked_softmax.backward";

fn register_attention<B, I, const N: usize>(registry: &mut CustomOpRegistry<B>)
where
    B: BackendIr + AttentionBackend,
    I: FusedOperation<B, N> + Unpack<B> + 'static,
{
    serve(registry, (I::OPERATION, I::FORWARD), |inputs: I| {
        let kernel = I::kernel().expect(SAID_SO);
        let (context, saved) = (kernel.forward)(inputs);
        Results::of([context, saved.statistics]).and(saved.seed)
    });
    serve(
        registry,
        (I::OPERATION, I::BACKWARD),
        |sent: Backward<B, I, N>| {
            let kernel = I::kernel().expect(SAID_SO);
            let asked = Asked::whole(sent.wanted);
            Results::of_gradients((kernel.backward)(sent.saved, sent.gradient, asked))
        },
    );
}

fn forward<C, I, const N: usize>(inputs: I) -> (FloatTensor<Router<C>>, Attended<Router<C>, I>)
where
    C: RouterChannel,
    I: FusedOperation<Router<C>, N> + Pack<C> + Clone,
{
    let [context, statistics] = fused::output_shapes::<Router<C>>(inputs.first(), inputs.values());
    let mut specs = vec![
        (context, inputs.first().dtype()),
        // Of the server's type: the client hands them back as they are.
        (statistics, DType::F32),
    ];
    if inputs.dropout() != 0.0 {
        specs.push(([4].into(), DType::F32));
    }
    let results = call::<C>(I::FORWARD, inputs.clone(), specs);
    Attended::of_results(inputs, results)
}

fn backward<C, I, const N: usize>(
    saved: Attended<Router<C>, I>,
    gradient: FloatTensor<Router<C>>,
    Asked { wanted, .. }: Asked<N>,
) -> [Gradient<Router<C>>; N]
where
    C: RouterChannel,
    I: FusedOperation<Router<C>, N> + Pack<C> + Clone,
{
    let specs = wanted_specs::<C, I, N>(&saved.inputs, wanted);
    let sent = Backward {
        saved,
        gradient,
        wanted,
    };
    let results = call::<C>(I::BACKWARD, sent, specs.iter().flatten().cloned());
    as_gradients(specs, results)
}

fn score_forward<C: RouterChannel>(
    inputs: AdditiveScoreInputs<Router<C>>,
) -> (FloatTensor<Router<C>>, AdditiveScoreInputs<Router<C>>) {
    let shape = fused::pairs_shape::<Router<C>>(&inputs.queries, &inputs.keys);
    let spec = (shape, inputs.queries.dtype());
    (only(call::<C>(SCORE, inputs.clone(), [spec])), inputs)
}

fn score_backward<C: RouterChannel>(
    inputs: AdditiveScoreInputs<Router<C>>,
    gradient: FloatTensor<Router<C>>,
    Asked { wanted, .. }: Asked<3>,
) -> [Gradient<Router<C>>; 3] {
    let specs = wanted_specs::<C, _, 3>(&inputs, wanted);
    let sent = ScoreBackward {
        inputs,
        gradient,
        wanted,
    };
    let results = call::<C>(SCORE_BACKWARD, sent, specs.iter().flatten().cloned());
    as_gradients(specs, results)
}

fn softmax_forward<C: RouterChannel>(
    inputs: MaskedSoftmaxInputs<Router<C>>,
) -> (FloatTensor<Router<C>>, FloatTensor<Router<C>>) {
    let spec = float_spec::<Router<C>>(&inputs.scores);
    let weights = only(call::<C>(SOFTMAX, inputs, [spec]));
    (weights.clone(), weights)
}

fn softmax_backward<C: RouterChannel>(
    weights: FloatTensor<Router<C>>,
    gradient: FloatTensor<Router<C>>,
    _: Asked<1>,
) -> [Gradient<Router<C>>; 1] {
    let spec = float_spec::<Router<C>>(&weights);
    let sent = SoftmaxBackward { weights, gradient };
    [Gradient::Whole(only(call::<C>(
        SOFTMAX_BACKWARD,
        sent,
        [spec],
    )))]
}
