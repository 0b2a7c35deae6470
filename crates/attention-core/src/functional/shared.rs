//! Tensors that many calls of one pass read; see [`deferred_gradients`](crate::ops::deferred_gradients).

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::{DType, Tensor};

use crate::ops::{AttentionOps, GradientSlot, SharedWeight};

/// Where the gradients of a tensor with many readers go.
#[derive(Clone, Debug)]
pub(crate) struct SharedTensor {
    /// The tensor in the graph: as it is read, or a leaf as it was given, with three axes or four and padding that is
    /// not cleared.
    source: FloatTensor<Dispatch>,
    slot: GradientSlot,
}

impl SharedTensor {
    /// The gradients go to `source`.
    pub(crate) fn new<const D: usize>(source: Tensor<D>) -> Self {
        Self {
            source: source.into_dispatch(),
            slot: GradientSlot::default(),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        Dispatch::float_is_require_grad(&self.source)
    }

    /// The tensor for one reader, which may deposit its gradient in [`slot`](Self::slot): `rows`, the source as it is
    /// read, `[batch, key_heads, keys, size]`.
    pub(crate) fn read(&self, rows: Tensor<4>) -> Tensor<4> {
        read(self.source.clone(), rows, &self.slot)
    }

    pub(crate) fn slot(&self) -> GradientSlot {
        self.slot.clone()
    }
}

impl SharedWeight {
    /// The weight for one call, `weight` itself or, in training, a node of the graph that may deposit its gradient.
    pub(crate) fn read(&self, weight: Tensor<2>) -> Tensor<2> {
        match weight.dtype() {
            DType::F32 | DType::F64 => read(weight.clone().into_dispatch(), weight, &self.slot()),
            // Quantised, or in half precision: not multiplied by our products.
            _ => weight,
        }
    }
}

/// `rows`, of which the gradient goes to `source`, for one reader, which may deposit it in `slot`.
fn read<const D: usize>(
    source: FloatTensor<Dispatch>,
    rows: Tensor<D>,
    slot: &GradientSlot,
) -> Tensor<D> {
    if rows.dims().contains(&0) {
        return rows;
    }
    let (rows, slot) = (rows.into_dispatch(), slot.clone());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::read_shared(source, rows, slot))
}
