//! Rows of a table, such as an embedding.

pub(super) mod cpu;

use burn::backend::Backend;
use burn::backend::tensor::{FloatTensor, IntTensor};

use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::select_rows`](super::LayerOps::select_rows).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct SelectRowsInputs[1] {
        /// `[rows, size]`
        tracked table: FloatTensor<B>,
        /// `[selected]`
        same indices: IntTensor<B>,
        /// The slot where calls with the same table deposit their gradients.
        same slot: Option<GradientSlot>,
    }
    slots: |inputs| [inputs.slot.clone()];
}

/// The composed definition.
pub(super) fn composed<B: Backend>(inputs: SelectRowsInputs<B>) -> FloatTensor<B> {
    B::float_select(inputs.table, 0, inputs.indices)
}
