//! Tensors that many calls of one pass read; see [`deferred_gradients`](crate::harness::deferred_gradients).

use burn::backend::tensor::FloatTensor;
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::Tensor;

use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::shared_weight::SharedWeight;
use crate::ops::LayerOps;

/// `rows`, whose gradient goes to `source`, for one reader, which may deposit the gradient in `slot`.
pub fn read_shared(
    source: FloatTensor<Dispatch>,
    rows: FloatTensor<Dispatch>,
    slot: &GradientSlot,
) -> FloatTensor<Dispatch> {
    if rows.shape().contains(&0) {
        return rows;
    }
    <Dispatch as LayerOps>::read_shared(source, rows, slot.clone())
}

/// The weight for one call: `weight` itself or, if calls share it, in training a node of the graph that may deposit its
/// gradient.
pub(crate) fn read_weight(weight: Tensor<2>, shared: Option<&SharedWeight>) -> Tensor<2> {
    let Some(shared) = shared else { return weight };
    let weight = weight.into_dispatch();
    Tensor::from_dispatch(read_shared(weight.clone(), weight, &shared.slot()))
}
