//! Rows of a table, as of an embedding.

pub(super) mod cpu;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};

use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::tracked::WithIndicesOf;
use crate::harness::tracked::{TensorMap, TrackedInputs};

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

impl<B: Backend> TrackedInputs<B, 1> for SelectRowsInputs<B> {
    type On<A: WithIndicesOf<B>> = SelectRowsInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.table
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        SelectRowsInputs {
            table: tensors.tracked(self.table),
            indices: self.indices,
            slot: self.slot,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 1] {
        [self.slot.clone()]
    }
}

/// The definition.
pub(super) fn composed<B: Backend>(inputs: SelectRowsInputs<B>) -> FloatTensor<B> {
    B::float_select(inputs.table, 0, inputs.indices)
}
