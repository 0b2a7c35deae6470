//! Tensors that many calls of one pass read; see [`deferred_gradients`](crate::harness::deferred_gradients).

use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::shared_weight::SharedWeight;
use crate::ops::LayerOps;

/// `rows`, whose gradient goes to `source`, for one reader, which may deposit the gradient in `slot`.
pub fn read_shared<const D: usize>(
    source: FloatTensor<Dispatch>,
    rows: Tensor<D>,
    slot: &GradientSlot,
) -> Tensor<D> {
    if rows.dims().contains(&0) {
        return rows;
    }
    let (rows, slot) = (rows.into_dispatch(), slot.clone());
    Tensor::from_dispatch(<Dispatch as LayerOps>::read_shared(source, rows, slot))
}

/// The weight for one call: `weight` itself or, in training, a node of the graph that may deposit its gradient.
pub(crate) fn read_weight(weight: Tensor<2>, shared: &SharedWeight) -> Tensor<2> {
    read_shared(weight.clone().into_dispatch(), weight, &shared.slot())
}
