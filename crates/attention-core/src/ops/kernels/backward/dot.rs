//! Gradients of dot-product attention.

use attention_kernels::{
    DotProduct, DotProductGradients, DotProductStep, Dropout, Level, dot_product_backward,
    dot_product_backward_step,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::super::Attended;
use super::super::dot::{DotTensors, DotViews};
use super::super::mask::HostMask;
use super::super::slices::{tensor, view, with_real, zeros};
use super::{Step, StepGradients, gradient};
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
    with_real!(tensors.queries.dtype(), E => {
        let views = DotViews::<E>::new(&tensors);
        let problem = views.problem(mask, dropout);
        let mut queries = zeros::<E>(&tensors.queries.shape());
        let mut keys = zeros::<E>(&tensors.keys.shape());
        let mut values = zeros::<E>(&tensors.values.shape());
        let mut bias = tensors.bias.as_ref().map(|bias| zeros::<E>(&bias.shape()));
        dot_product_backward(
            Level::current(),
            &problem,
            view::<B, E>(&attended.context).rows(),
            &view::<B, E>(&attended.lse).numbers(),
            view::<B, E>(&grad).rows(),
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

impl<B: Backend> DotTensors<B> {
    /// Whether [`attention_backward_step`] takes them.
    pub(in crate::ops) fn is_step(&self) -> bool {
        self.queries.shape()[2] <= DotProduct::<f32>::STEP_QUERIES
    }
}

/// As [`attention_backward`], of a [step](DotTensors::is_step).
pub(in crate::ops) fn attention_backward_step<B: HostBackend>(
    tensors: DotTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
    attended: Attended<B>,
    grad: FloatTensor<B>,
) -> StepGradients<B> {
    let dtype = tensors.queries.dtype();
    let [batch, heads, num_queries, _] = tensors.queries.shape().dims();
    let [_, _, num_keys, _] = tensors.keys.shape().dims();
    let pairs = Shape::from([batch, heads, num_queries, num_keys]);
    with_real!(tensors.queries.dtype(), E => {
        let views = DotViews::<E>::new(&tensors);
        let problem = views.problem(mask, dropout);
        let mut queries = zeros::<E>(&tensors.queries.shape());
        let mut bias = tensors.bias.as_ref().map(|bias| zeros::<E>(&bias.shape()));
        let [mut scores, mut weights] = [zeros::<E>(&pairs), zeros::<E>(&pairs)];
        dot_product_backward_step(
            Level::current(),
            &problem,
            view::<B, E>(&attended.context).rows(),
            &view::<B, E>(&attended.lse).numbers(),
            view::<B, E>(&grad).rows(),
            DotProductStep {
                queries: &mut queries,
                scores: &mut scores,
                weights: &mut weights,
                bias: bias.as_deref_mut(),
            },
        );
        let [scores, weights] = [scores, weights].map(|numbers| tensor::<B, E>(numbers, pairs.clone(), &grad));
        let of_queries = gradient::<B, E>(queries, &tensors.queries, dtype);
        let of_bias = bias.zip(tensors.bias.as_ref()).map(|(bias, like)| gradient::<B, E>(bias, like, dtype));
        StepGradients {
            whole: [Some(of_queries), None, None, of_bias],
            left: [Step::keys(tensors.scale, scores, tensors.queries.clone()), Step::values(weights, grad.clone())],
        }
    })
}
