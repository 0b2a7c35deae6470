//! Dot-product attention.

use attention_kernels::{
    DotProduct, DotProductGradients, DotProductStep, Dropout, Level, dot_product_backward,
    dot_product_backward_step, dot_product_forward,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::mask::HostMask;
use super::slices::{gradient, narrowed, numbers, read, rows, tensor, widened, with_real, zeros};
use super::{Attended, attended_shapes};
use crate::ops::HostBackend;
use crate::ops::host::{HostReal, HostSlice};

/// The tensors of [`crate::ops::AttentionOps::attention`], and its scale.
#[derive(Clone, Debug)]
pub(in crate::ops) struct DotTensors<B: Backend> {
    pub(in crate::ops) queries: FloatTensor<B>,
    pub(in crate::ops) keys: FloatTensor<B>,
    pub(in crate::ops) values: FloatTensor<B>,
    pub(in crate::ops) bias: Option<FloatTensor<B>>,
    pub(in crate::ops) scale: f64,
}

impl<B: Backend> DotTensors<B> {
    fn widened(self) -> Self {
        Self {
            queries: widened::<B>(self.queries),
            keys: widened::<B>(self.keys),
            values: widened::<B>(self.values),
            bias: self.bias.map(widened::<B>),
            scale: self.scale,
        }
    }
}

/// The slices of [`DotTensors`].
struct DotSlices<'a, E: HostReal> {
    queries: HostSlice<'a, E>,
    keys: HostSlice<'a, E>,
    values: HostSlice<'a, E>,
    bias: Option<HostSlice<'a, E>>,
}

impl<'a, E: HostReal> DotSlices<'a, E> {
    fn new<B: HostBackend>(tensors: &'a DotTensors<B>) -> Self {
        Self {
            queries: read::<B, E>(&tensors.queries),
            keys: read::<B, E>(&tensors.keys),
            values: read::<B, E>(&tensors.values),
            bias: tensors.bias.as_ref().map(read::<B, E>),
        }
    }

    fn problem<B: HostBackend>(
        &self,
        tensors: &DotTensors<B>,
        mask: &'a HostMask,
        dropout: Option<Dropout>,
    ) -> DotProduct<'_, E> {
        let bias = self.bias.as_ref().zip(tensors.bias.as_ref());
        DotProduct {
            queries: rows(&self.queries, &tensors.queries.shape()),
            keys: rows(&self.keys, &tensors.keys.shape()),
            values: rows(&self.values, &tensors.values.shape()),
            bias: bias.map(|(slice, tensor)| rows(slice, &tensor.shape())),
            mask: mask.as_mask(),
            scale: E::from_f64(tensors.scale),
            dropout,
        }
    }
}

/// [`crate::ops::AttentionOps::attention`], dropout drawn before.
pub(in crate::ops) fn attention<B: HostBackend>(
    tensors: DotTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
) -> Attended<B> {
    let dtype = tensors.queries.dtype();
    let tensors = tensors.widened();
    let (context_shape, lse_shape) = attended_shapes::<B>(&tensors.queries, &tensors.values);
    let (context, lse) = with_real!(tensors.queries.dtype(), E => {
        let slices = DotSlices::<E>::new(&tensors);
        let problem = slices.problem(&tensors, mask, dropout);
        let (mut context, mut lse) = (zeros::<E>(&context_shape), zeros::<E>(&lse_shape));
        dot_product_forward(Level::current(), &problem, &mut context, &mut lse);
        (
            tensor::<B, E>(context, context_shape, &tensors.queries),
            tensor::<B, E>(lse, lse_shape, &tensors.queries),
        )
    });
    let context = narrowed::<B>(context, dtype);
    Attended { context, lse }
}

/// The gradients of [`attention`]: of queries, keys and values, and of the bias if there is one.
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
