//! By the kernel of `attention-kernels`.

use attention_kernels::{
    self as kernels, AttentionOutputs, DotProductAttentionGradients, DotProductDeferredGradients,
};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::deferred_gradients::Deferral;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::{Buffer, Level};

use super::DotProductAttentionInputs;
use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::dropout::draw_seed;
use crate::ops::fused::Attended;
use crate::ops::fused::cpu::{dropout, outputs};
use crate::ops::fused::{output_shapes, pairs_shape};
use crate::ops::host::{
    AttentionElement, CpuBackend, CpuReal, on_host, readable, rows, tensor, unwritten, whole,
    with_real, zeros,
};

type Saved<B> = Attended<B, DotProductAttentionInputs<B>>;

/// What the kernel reads.
fn kernel<'a, B: CpuBackend, E: AttentionElement>(
    inputs: &'a DotProductAttentionInputs<B>,
    seed: &Option<FloatTensor<B>>,
) -> kernels::DotProductAttentionInputs<'a, E> {
    kernels::DotProductAttentionInputs {
        queries: rows::<B, E>(&inputs.queries),
        keys: rows::<B, E>(&inputs.keys),
        values: rows::<B, E>(&inputs.values),
        bias: inputs.bias.as_option().map(rows::<B, E>),
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
    let (context, statistics) = with_real!(dtype, E => {
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

/// The gradients of queries, keys, values and bias.
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
        let DotProductAttentionInputs { queries, keys, values, bias, .. } = &saved.inputs;
        let [mut to_queries, mut to_keys, mut to_values] =
            [queries, keys, values].map(|input| zeros::<E>(&input.shape()));
        let mut to_bias = bias.as_option().map(|bias| zeros::<E>(&bias.shape()));
        let gradients = DotProductAttentionGradients {
            queries: &mut to_queries,
            keys: &mut to_keys,
            values: &mut to_values,
            bias: to_bias.as_deref_mut(),
        };
        kernel.backward(Level::current(), &outputs, gradients);
        [
            whole::<B, E>(to_queries, dtype, queries),
            whole::<B, E>(to_keys, dtype, keys),
            whole::<B, E>(to_values, dtype, values),
            of_bias::<B, E>(to_bias, &saved.inputs),
        ]
    })
}

/// The gradients of queries and bias, and what is deposited for those of keys and values.
fn deferred<B: CpuBackend, E: AttentionElement>(
    inputs: &DotProductAttentionInputs<B>,
    kernel: &kernels::DotProductAttentionInputs<E>,
    outputs: &AttentionOutputs<E>,
    gradient: &FloatTensor<B>,
) -> [Gradient<B>; 4] {
    let queries = &inputs.queries;
    let pairs = pairs_shape::<B>(queries, &inputs.keys);
    let mut to_queries = zeros::<E>(&queries.shape());
    let bias = inputs.bias.as_option();
    let mut to_bias = bias.map(|bias| zeros::<E>(&bias.shape()));
    let [mut scores, mut weights] = [(); 2].map(|()| zeros::<E>(&pairs));
    let gradients = DotProductDeferredGradients {
        queries: &mut to_queries,
        scores: &mut scores,
        weights: &mut weights,
        bias: to_bias.as_deref_mut(),
    };
    kernel.backward_deferred(Level::current(), outputs, gradients);
    let of_pairs = |elements| tensor::<B, E>(elements, pairs.clone(), E::DTYPE, queries);
    [
        whole::<B, E>(to_queries, gradient.dtype(), queries),
        Gradient::Deferred(Box::new(DeferredPairs::Products {
            factor: inputs.scale,
            pairs: of_pairs(scores),
            queries: queries.clone(),
        })),
        Gradient::Deferred(Box::new(DeferredPairs::Products {
            factor: 1.0,
            pairs: of_pairs(weights),
            queries: gradient.clone(),
        })),
        of_bias::<B, E>(to_bias, inputs),
    ]
}

/// The gradient of the bias, in the bias's own type.
fn of_bias<B: CpuBackend, E: AttentionElement>(
    gradient: Option<Buffer<E>>,
    inputs: &DotProductAttentionInputs<B>,
) -> Gradient<B> {
    match gradient.zip(inputs.bias.as_option()) {
        Some((gradient, bias)) => whole::<B, E>(gradient, bias.dtype(), bias),
        None => Gradient::Absent,
    }
}
