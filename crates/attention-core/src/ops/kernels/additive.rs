//! Additive scores and attention.

use attention_kernels::{AdditiveAttention, AdditiveScore, Dropout, Level};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::mask::HostMask;
use super::slices::{narrowed, numbers, read, rows, tensor, widened, with_real, zeros};
use super::{Attended, attended_shapes};
use crate::ops::HostBackend;
use crate::ops::host::{HostReal, HostSlice};

/// [`crate::ops::AttentionOps::additive_score`]
pub(in crate::ops) fn additive_score<B: HostBackend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: &HostMask,
) -> FloatTensor<B> {
    let dtype = queries.dtype();
    let [queries, keys, weight] = [queries, keys, weight].map(widened::<B>);
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let shape = Shape::from([batch, heads, num_queries, num_keys]);
    let scores = with_real!(queries.dtype(), E => {
        let (q, k, w) = (read::<B, E>(&queries), read::<B, E>(&keys), read::<B, E>(&weight));
        let problem = AdditiveScore {
            queries: rows(&q, &queries.shape()),
            keys: rows(&k, &keys.shape()),
            weight: &numbers(&w, &weight.shape()),
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

impl<B: Backend> AdditiveTensors<B> {
    pub(super) fn widened(self) -> Self {
        Self {
            queries: widened::<B>(self.queries),
            keys: widened::<B>(self.keys),
            values: widened::<B>(self.values),
            weight: widened::<B>(self.weight),
            packed: self.packed,
        }
    }
}

/// The slices of [`AdditiveTensors`].
pub(super) struct AdditiveSlices<'a, E: HostReal> {
    queries: HostSlice<'a, E>,
    keys: HostSlice<'a, E>,
    values: HostSlice<'a, E>,
    weight: Vec<E>,
    packed: Option<HostSlice<'a, E>>,
}

impl<'a, E: HostReal> AdditiveSlices<'a, E> {
    pub(super) fn new<B: HostBackend>(tensors: &'a AdditiveTensors<B>) -> Self {
        let weight = read::<B, E>(&tensors.weight);
        Self {
            queries: read::<B, E>(&tensors.queries),
            keys: read::<B, E>(&tensors.keys),
            values: read::<B, E>(&tensors.values),
            weight: numbers(&weight, &tensors.weight.shape()).into_owned(),
            packed: tensors.packed.as_ref().map(read::<B, E>),
        }
    }

    pub(super) fn problem<B: HostBackend>(
        &self,
        tensors: &AdditiveTensors<B>,
        mask: &'a HostMask,
        dropout: Option<Dropout>,
    ) -> AdditiveAttention<'_, E> {
        let packed_len = |packed: &FloatTensor<B>| packed.shape().num_elements();
        let packed = self
            .packed
            .as_ref()
            .zip(tensors.packed.as_ref().map(packed_len));
        AdditiveAttention {
            score: AdditiveScore {
                queries: rows(&self.queries, &tensors.queries.shape()),
                keys: rows(&self.keys, &tensors.keys.shape()),
                weight: &self.weight,
                mask: mask.as_mask(),
            },
            values: rows(&self.values, &tensors.values.shape()),
            packed_keys: packed.map(|(slice, len)| &slice.data[..len]),
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
    let keys = widened::<B>(keys);
    with_real!(keys.dtype(), E => {
        let k = read::<B, E>(&keys);
        let shape = keys.shape();
        let packed = AdditiveScore::packed_keys(rows(&k, &shape), mask.as_mask(), num_queries, Level::current());
        tensor::<B, E>(packed, AdditiveScore::<E>::packed_shape(shape.dims()), &keys)
    })
}

/// [`crate::ops::AttentionOps::additive_attention`], dropout drawn before.
pub(in crate::ops) fn additive_attention<B: HostBackend>(
    tensors: AdditiveTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
) -> Attended<B> {
    let dtype = tensors.queries.dtype();
    let tensors = tensors.widened();
    let (context_shape, lse_shape) = attended_shapes::<B>(&tensors.queries, &tensors.values);
    let (context, lse) = with_real!(tensors.queries.dtype(), E => {
        let slices = AdditiveSlices::<E>::new(&tensors);
        let (mut context, mut lse) = (zeros::<E>(&context_shape), zeros::<E>(&lse_shape));
        slices.problem(&tensors, mask, dropout).forward(Level::current(), &mut context, &mut lse);
        (
            tensor::<B, E>(context, context_shape, &tensors.queries),
            tensor::<B, E>(lse, lse_shape, &tensors.queries),
        )
    });
    let context = narrowed::<B>(context, dtype);
    Attended { context, lse }
}
