//! Additive scores and attention.

use std::borrow::Cow;

use attention_kernels::{AdditiveAttention, AdditiveScore, Dropout, Level};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::mask::HostMask;
use super::slices::{View, narrowed, tensor, view, with_real, zeros};
use super::{Attended, attended_shapes};
use crate::ops::HostBackend;
use crate::ops::host::HostReal;

/// [`crate::ops::AttentionOps::additive_score`]
pub(in crate::ops) fn additive_score<B: HostBackend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: &HostMask,
) -> FloatTensor<B> {
    let dtype = queries.dtype();
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let shape = Shape::from([batch, heads, num_queries, num_keys]);
    let scores = with_real!(queries.dtype(), E => {
        let (q, k) = (view::<B, E>(&queries), view::<B, E>(&keys));
        let problem = AdditiveScore {
            queries: q.rows(),
            keys: k.rows(),
            weight: &view::<B, E>(&weight).numbers(),
            mask: mask.as_mask(),
        };
        let mut scores = zeros::<E>(&shape);
        problem.forward(Level::current(), &mut scores);
        tensor::<B, E>(scores, shape, &queries)
    });
    narrowed::<B>(scores, dtype)
}

/// The tensors of [`crate::ops::AttentionOps::additive_attention`].
#[derive(Clone, Debug)]
pub(in crate::ops) struct AdditiveTensors<B: Backend> {
    pub(in crate::ops) queries: FloatTensor<B>,
    pub(in crate::ops) keys: FloatTensor<B>,
    pub(in crate::ops) values: FloatTensor<B>,
    pub(in crate::ops) weight: FloatTensor<B>,
    pub(in crate::ops) packed: Option<FloatTensor<B>>,
}

/// What the kernels see of [`AdditiveTensors`].
pub(super) struct AdditiveViews<'a, E: HostReal> {
    queries: View<'a, E>,
    keys: View<'a, E>,
    values: View<'a, E>,
    weight: Cow<'a, [E]>,
    packed: Option<Cow<'a, [E]>>,
}

impl<'a, E: HostReal> AdditiveViews<'a, E> {
    pub(super) fn new<B: HostBackend>(tensors: &'a AdditiveTensors<B>) -> Self {
        let packed = tensors.packed.as_ref();
        Self {
            queries: view::<B, E>(&tensors.queries),
            keys: view::<B, E>(&tensors.keys),
            values: view::<B, E>(&tensors.values),
            weight: view::<B, E>(&tensors.weight).numbers(),
            packed: packed.map(|packed| view::<B, E>(packed).numbers()),
        }
    }

    pub(super) fn problem(
        &'a self,
        mask: &'a HostMask,
        dropout: Option<Dropout>,
    ) -> AdditiveAttention<'a, E> {
        AdditiveAttention {
            score: AdditiveScore {
                queries: self.queries.rows(),
                keys: self.keys.rows(),
                weight: &self.weight,
                mask: mask.as_mask(),
            },
            values: self.values.rows(),
            packed_keys: self.packed.as_deref(),
            dropout,
        }
    }
}

/// [`crate::ops::AttentionOps::pack_additive_keys`]
pub(in crate::ops) fn pack_additive_keys<B: HostBackend>(
    keys: FloatTensor<B>,
    mask: &HostMask,
    num_queries: usize,
) -> FloatTensor<B> {
    with_real!(keys.dtype(), E => {
        let k = view::<B, E>(&keys);
        let packed = AdditiveScore::packed_keys(k.rows(), mask.as_mask(), num_queries, Level::current());
        tensor::<B, E>(packed, AdditiveScore::<E>::packed_shape(keys.shape().dims()), &keys)
    })
}

/// [`crate::ops::AttentionOps::additive_attention`], dropout drawn before.
pub(in crate::ops) fn additive_attention<B: HostBackend>(
    tensors: AdditiveTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
) -> Attended<B> {
    let dtype = tensors.queries.dtype();
    let (context_shape, lse_shape) = attended_shapes::<B>(&tensors.queries, &tensors.values);
    let (context, lse) = with_real!(tensors.queries.dtype(), E => {
        let views = AdditiveViews::<E>::new(&tensors);
        let (mut context, mut lse) = (zeros::<E>(&context_shape), zeros::<E>(&lse_shape));
        views.problem(mask, dropout).forward(Level::current(), &mut context, &mut lse);
        (
            tensor::<B, E>(context, context_shape, &tensors.queries),
            tensor::<B, E>(lse, lse_shape, &tensors.queries),
        )
    });
    let context = narrowed::<B>(context, dtype);
    Attended { context, lse }
}
