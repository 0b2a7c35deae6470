//! Tensors that many calls of one pass read; see
//! [`deferred_gradients`](burn_fused_layers::harness::deferred_gradients).

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;
use burn_fused_layers::backend::GradientSlot;
use burn_fused_layers::read_shared;

/// A tensor with many readers, and where their gradients go.
#[derive(Clone, Debug)]
pub(crate) struct SharedTensor {
    /// The tensor in the graph: the one that is read, or the leaf that was given, with three or four axes and padding
    /// not cleared.
    source: FloatTensor<Dispatch>,
    slot: GradientSlot,
}

impl SharedTensor {
    /// A tensor whose gradients go to `source`.
    pub(crate) fn new<const D: usize>(source: Tensor<D>) -> Self {
        Self {
            source: source.into_dispatch(),
            slot: GradientSlot::default(),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        Dispatch::float_is_require_grad(&self.source)
    }

    /// The tensor for one reader, which may deposit its gradient in [`slot`](Self::slot): `rows` is the source as read,
    /// `[batch, key_heads, keys, size]`.
    pub(crate) fn read(&self, rows: Tensor<4>) -> Tensor<4> {
        read_shared(self.source.clone(), rows, &self.slot)
    }

    pub(crate) fn slot(&self) -> GradientSlot {
        self.slot.clone()
    }
}
