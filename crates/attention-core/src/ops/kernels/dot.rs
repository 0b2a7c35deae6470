//! Dot-product attention.

use attention_kernels::{DotProduct, Dropout, Level, dot_product_forward};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::DType;

use super::mask::HostMask;
use super::slices::{View, narrowed, tensor, view, with_real, zeros};
use super::{Attended, attended_shapes};
use crate::ops::HostBackend;
use crate::ops::host::HostReal;

/// The tensors of [`crate::ops::AttentionOps::attention`], and its scale.
#[derive(Clone, Debug)]
pub(in crate::ops) struct DotTensors<B: Backend> {
    pub(in crate::ops) queries: FloatTensor<B>,
    pub(in crate::ops) keys: FloatTensor<B>,
    pub(in crate::ops) values: FloatTensor<B>,
    pub(in crate::ops) bias: Option<FloatTensor<B>>,
    pub(in crate::ops) scale: f64,
}

/// What the kernels see of [`DotTensors`].
pub(super) struct DotViews<'a, E: HostReal> {
    queries: View<'a, E>,
    keys: View<'a, E>,
    values: View<'a, E>,
    bias: Option<View<'a, E>>,
    scale: E,
}

impl<'a, E: HostReal> DotViews<'a, E> {
    pub(super) fn new<B: HostBackend>(tensors: &'a DotTensors<B>) -> Self {
        Self {
            queries: view::<B, E>(&tensors.queries),
            keys: view::<B, E>(&tensors.keys),
            values: view::<B, E>(&tensors.values),
            bias: tensors.bias.as_ref().map(view::<B, E>),
            scale: E::from_f64(tensors.scale),
        }
    }

    pub(super) fn problem(
        &'a self,
        mask: &'a HostMask,
        dropout: Option<Dropout>,
    ) -> DotProduct<'a, E> {
        DotProduct {
            queries: self.queries.rows(),
            keys: self.keys.rows(),
            values: self.values.rows(),
            bias: self.bias.as_ref().map(View::rows),
            mask: mask.as_mask(),
            scale: self.scale,
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
    let (context_shape, lse_shape) = attended_shapes::<B>(&tensors.queries, &tensors.values);
    let (context, lse) = with_real!(tensors.queries.dtype(), E => {
        let views = DotViews::<E>::new(&tensors);
        let problem = views.problem(mask, dropout);
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
