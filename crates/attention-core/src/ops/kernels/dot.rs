//! Dot-product attention.

use attention_kernels::{DotProduct, Dropout, Level, dot_product_forward};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::DType;

use super::mask::HostMask;
use super::slices::{narrowed, read, rows, tensor, widened, with_real, zeros};
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
    pub(super) fn widened(self) -> Self {
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
pub(super) struct DotSlices<'a, E: HostReal> {
    queries: HostSlice<'a, E>,
    keys: HostSlice<'a, E>,
    values: HostSlice<'a, E>,
    bias: Option<HostSlice<'a, E>>,
}

impl<'a, E: HostReal> DotSlices<'a, E> {
    pub(super) fn new<B: HostBackend>(tensors: &'a DotTensors<B>) -> Self {
        Self {
            queries: read::<B, E>(&tensors.queries),
            keys: read::<B, E>(&tensors.keys),
            values: read::<B, E>(&tensors.values),
            bias: tensors.bias.as_ref().map(read::<B, E>),
        }
    }

    pub(super) fn problem<B: HostBackend>(
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
