//! Rows of a table, as of an embedding.

pub(super) mod cpu;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};

use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::tracked::tracked_inputs;

/// Inputs of [`LayerOps::select_rows`](super::LayerOps::select_rows).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct SelectRowsInputs<B: Backend> {
    /// `[rows, size]`
    pub table: FloatTensor<B>,
    /// `[selected]`
    pub indices: IntTensor<B>,
    /// Where calls with the same table deposit their gradients.
    pub slot: Option<GradientSlot>,
}

tracked_inputs!(SelectRowsInputs[1], first: table, slots: |inputs| [inputs.slot.clone()], {
    table: tracked,
    indices: same,
    slot: same,
});

/// The definition.
pub(super) fn composed<B: Backend>(inputs: SelectRowsInputs<B>) -> FloatTensor<B> {
    B::float_select(inputs.table, 0, inputs.indices)
}
