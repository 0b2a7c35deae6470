//! Gradients of dot-product attention.

use attention_kernels::{
    DotProductGradients, DotProductStep, Dropout, Level, dot_product_backward,
    dot_product_backward_step,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::super::Attended;
use super::super::dot::{DotSlices, DotTensors};
use super::super::mask::HostMask;
use super::super::slices::{numbers, read, rows, tensor, widened, with_real, zeros};
use super::gradient;
use crate::ops::HostBackend;

/// The gradients of [`attention`](super::super::attention): of queries, keys and values, and of the bias if there is one.
pub(in crate::ops) fn attention_backward<B: HostBackend>(
    tensors: DotTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
    attended: Attended<B>,
    grad: FloatTensor<B>,
) -> [Option<FloatTensor<B>>; 4] {
    let dtype = tensors.queries.dtype();
    let tensors = tensors.widened();
    let [context, grad] = [attended.context, grad].map(widened::<B>);
    with_real!(tensors.queries.dtype(), E => {
        let slices = DotSlices::<E>::new(&tensors);
        let problem = slices.problem(&tensors, mask, dropout);
        let (c, l, g) = (read::<B, E>(&context), read::<B, E>(&attended.lse), read::<B, E>(&grad));
        let mut queries = zeros::<E>(&tensors.queries.shape());
        let mut keys = zeros::<E>(&tensors.keys.shape());
        let mut values = zeros::<E>(&tensors.values.shape());
        let mut bias = tensors.bias.as_ref().map(|bias| zeros::<E>(&bias.shape()));
        dot_product_backward(
            Level::current(),
            &problem,
            &numbers(&c, &context.shape()),
            &l.data,
            rows(&g, &grad.shape()),
            DotProductGradients {
                queries: &mut queries,
                keys: &mut keys,
                values: &mut values,
                bias: bias.as_deref_mut(),
            },
        );
        [
            Some(gradient::<B, E>(queries, &tensors.queries, dtype)),
            Some(gradient::<B, E>(keys, &tensors.keys, dtype)),
            Some(gradient::<B, E>(values, &tensors.values, dtype)),
            bias.zip(tensors.bias.as_ref()).map(|(bias, like)| gradient::<B, E>(bias, like, dtype)),
        ]
    })
}

/// What a step of dot-product attention gives; see [`dot_product_backward_step`].
pub(in crate::ops) struct DotStepGradients<B: Backend> {
    pub(in crate::ops) queries: FloatTensor<B>,
    pub(in crate::ops) bias: Option<FloatTensor<B>>,
    /// Of the scores, not narrowed to half precision.
    pub(in crate::ops) scores: FloatTensor<B>,
    /// The weights after dropout, not narrowed.
    pub(in crate::ops) weights: FloatTensor<B>,
}

/// As [`attention_backward`], if this is a step.
pub(in crate::ops) fn attention_backward_step<B: HostBackend>(
    tensors: &DotTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
    attended: &Attended<B>,
    grad: &FloatTensor<B>,
) -> Option<DotStepGradients<B>> {
    let dtype = tensors.queries.dtype();
    let tensors = tensors.clone().widened();
    let [context, grad] = [&attended.context, grad].map(|tensor| widened::<B>(tensor.clone()));
    let [batch, heads, num_queries, _] = tensors.queries.shape().dims();
    let [_, _, num_keys, _] = tensors.keys.shape().dims();
    let pairs = Shape::from([batch, heads, num_queries, num_keys]);
    with_real!(tensors.queries.dtype(), E => {
        let slices = DotSlices::<E>::new(&tensors);
        let problem = slices.problem(&tensors, mask, dropout);
        if !problem.is_step() {
            return None;
        }
        let (c, l, g) = (read::<B, E>(&context), read::<B, E>(&attended.lse), read::<B, E>(&grad));
        let mut queries = zeros::<E>(&tensors.queries.shape());
        let mut bias = tensors.bias.as_ref().map(|bias| zeros::<E>(&bias.shape()));
        let [mut scores, mut weights] = [zeros::<E>(&pairs), zeros::<E>(&pairs)];
        dot_product_backward_step(
            Level::current(),
            &problem,
            &numbers(&c, &context.shape()),
            &l.data,
            rows(&g, &grad.shape()),
            DotProductStep {
                queries: &mut queries,
                scores: &mut scores,
                weights: &mut weights,
                bias: bias.as_deref_mut(),
            },
        );
        Some(DotStepGradients {
            queries: gradient::<B, E>(queries, &tensors.queries, dtype),
            bias: bias.zip(tensors.bias.as_ref()).map(|(bias, like)| gradient::<B, E>(bias, like, dtype)),
            scores: tensor::<B, E>(scores, pairs.clone(), &grad),
            weights: tensor::<B, E>(weights, pairs, &grad),
        })
    })
}
