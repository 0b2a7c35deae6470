//! The gradients, for training.

mod additive;
mod dot;
mod gather;

pub(in crate::ops) use additive::*;
pub(in crate::ops) use dot::*;
pub(in crate::ops) use gather::{Step, total};

use attention_kernels::Level;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::DType;

use super::slices::{narrowed, tensor, view, with_real, zeros};
use crate::ops::HostBackend;
use crate::ops::host::HostReal;

/// What a step gives its four inputs: queries, keys, values, and bias or weight.
pub(in crate::ops) struct StepGradients<B: Backend> {
    /// Of inputs whose gradient is ready.
    pub(in crate::ops) whole: [Option<FloatTensor<B>>; 4],
    /// What is left for those of keys and values.
    pub(in crate::ops) left: [Step<B>; 2],
}

/// The gradient of `input`, in `dtype`.
fn gradient<B: Backend, E: HostReal>(
    numbers: Vec<E>,
    input: &FloatTensor<B>,
    dtype: DType,
) -> FloatTensor<B> {
    narrowed::<B>(tensor::<B, E>(numbers, input.shape(), input), dtype)
}

/// The gradient of [`masked_softmax`](super::masked_softmax), from its result.
pub(in crate::ops) fn masked_softmax_backward<B: HostBackend>(
    weights: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let dtype = weights.dtype();
    let shape = weights.shape();
    let gradient = with_real!(weights.dtype(), E => {
        let (w, g) = (view::<B, E>(&weights), view::<B, E>(&grad));
        let mut to = zeros::<E>(&shape);
        attention_kernels::masked_softmax_backward(Level::current(), w.rows(), g.rows(), &mut to);
        tensor::<B, E>(to, shape, &weights)
    });
    narrowed::<B>(gradient, dtype)
}
