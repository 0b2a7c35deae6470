//! Gradients of additive scores and attention.

use attention_kernels::{
    AdditiveAttention, AdditiveAttentionGradients, AdditiveGradients, AdditiveScore, AdditiveStep,
    Dropout, Level,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::super::Attended;
use super::super::additive::{AdditiveTensors, AdditiveViews};
use super::super::mask::HostMask;
use super::super::slices::{tensor, view, with_real, zeros};
use super::{Step, StepGradients, gradient};
use crate::ops::HostBackend;

/// The gradients of [`additive_score`](super::super::additive_score): of queries, keys and weight.
pub(in crate::ops) fn additive_score_backward<B: HostBackend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: &HostMask,
    grad: FloatTensor<B>,
) -> [FloatTensor<B>; 3] {
    let dtype = queries.dtype();
    with_real!(queries.dtype(), E => {
        let (q, k) = (view::<B, E>(&queries), view::<B, E>(&keys));
        let problem = AdditiveScore {
            queries: q.rows(),
            keys: k.rows(),
            weight: &view::<B, E>(&weight).numbers(),
            mask: mask.as_mask(),
        };
        let inputs = [&queries, &keys, &weight];
        let [mut dq, mut dk, mut dw] = inputs.map(|input| zeros::<E>(&input.shape()));
        let gradients = AdditiveGradients { queries: &mut dq, keys: &mut dk, weight: &mut dw };
        problem.backward(Level::current(), view::<B, E>(&grad).rows(), gradients);
        [
            gradient::<B, E>(dq, &queries, dtype),
            gradient::<B, E>(dk, &keys, dtype),
            gradient::<B, E>(dw, &weight, dtype),
        ]
    })
}

/// The gradients of [`additive_attention`](super::super::additive_attention): of queries, keys, values and weight.
pub(in crate::ops) fn additive_attention_backward<B: HostBackend>(
    tensors: AdditiveTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
    attended: Attended<B>,
    grad: FloatTensor<B>,
) -> [FloatTensor<B>; 4] {
    let dtype = tensors.queries.dtype();
    with_real!(tensors.queries.dtype(), E => {
        let views = AdditiveViews::<E>::new(&tensors);
        let AdditiveTensors { queries, keys, values, weight, .. } = &tensors;
        let inputs = [queries, keys, values, weight];
        let [mut dq, mut dk, mut dv, mut dw] = inputs.map(|input| zeros::<E>(&input.shape()));
        views.problem(mask, dropout).backward(
            Level::current(),
            view::<B, E>(&attended.context).rows(),
            &view::<B, E>(&attended.lse).numbers(),
            view::<B, E>(&grad).rows(),
            AdditiveAttentionGradients {
                queries: &mut dq,
                keys: &mut dk,
                values: &mut dv,
                weight: &mut dw,
            },
        );
        [
            gradient::<B, E>(dq, queries, dtype),
            gradient::<B, E>(dk, keys, dtype),
            gradient::<B, E>(dv, values, dtype),
            gradient::<B, E>(dw, weight, dtype),
        ]
    })
}

impl<B: Backend> AdditiveTensors<B> {
    /// Whether [`additive_attention_backward_step`] takes them.
    pub(in crate::ops) fn is_step(&self) -> bool {
        let is_empty = |tensor: &FloatTensor<B>| tensor.shape().num_elements() == 0;
        self.queries.shape()[2] <= AdditiveAttention::<f32>::STEP_QUERIES
            && ![&self.queries, &self.keys, &self.values]
                .into_iter()
                .any(is_empty)
    }
}

/// As [`additive_attention_backward`], of a [step](AdditiveTensors::is_step).
pub(in crate::ops) fn additive_attention_backward_step<B: HostBackend>(
    tensors: AdditiveTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
    grad: FloatTensor<B>,
) -> StepGradients<B> {
    let dtype = tensors.queries.dtype();
    let [batch, heads, num_queries, _] = tensors.queries.shape().dims();
    let [_, _, num_keys, _] = tensors.keys.shape().dims();
    let pairs = Shape::from([batch, heads, num_queries, num_keys]);
    with_real!(tensors.queries.dtype(), E => {
        let views = AdditiveViews::<E>::new(&tensors);
        let problem = views.problem(mask, dropout);
        let mut queries = zeros::<E>(&tensors.queries.shape());
        let mut weight = zeros::<E>(&tensors.weight.shape());
        let [mut scores, mut weights] = [zeros::<E>(&pairs), zeros::<E>(&pairs)];
        let step = AdditiveStep {
            queries: &mut queries,
            weight: &mut weight,
            scores: &mut scores,
            weights: &mut weights,
        };
        problem.backward_step(Level::current(), view::<B, E>(&grad).rows(), step);
        let [scores, weights] = [scores, weights].map(|numbers| tensor::<B, E>(numbers, pairs.clone(), &grad));
        let of_queries = gradient::<B, E>(queries, &tensors.queries, dtype);
        let of_weight = gradient::<B, E>(weight, &tensors.weight, dtype);
        StepGradients {
            whole: [Some(of_queries), None, None, Some(of_weight)],
            left: [
                Step::additive_keys(scores, tensors.queries.clone(), tensors.weight.clone()),
                Step::values(weights, grad.clone()),
            ],
        }
    })
}
