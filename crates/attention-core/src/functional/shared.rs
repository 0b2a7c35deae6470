//! Tensors that many calls of one pass read; see
//! [`deferred_gradients`](burn_fused_layers::harness::deferred_gradients).

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::backend::GradientSlot;
use burn_fused_layers::read_shared;

use crate::rank::Sequences;

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
    pub(crate) fn new(source: FloatTensor<Dispatch>) -> Self {
        Self {
            source,
            slot: GradientSlot::default(),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        Dispatch::float_is_require_grad(&self.source)
    }

    /// The tensor for one reader, which may deposit its gradient in [`slot`](Self::slot): `rows` is the source as read,
    /// `[batch, key_heads, keys, size]`.
    pub(crate) fn read(&self, rows: Sequences) -> Sequences {
        let rows = read_shared(self.source.clone(), rows.into_dispatch(), &self.slot);
        Sequences::of_dispatch(rows)
    }

    pub(crate) fn slot(&self) -> GradientSlot {
        self.slot.clone()
    }
}
