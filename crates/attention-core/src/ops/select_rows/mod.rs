//! Rows of a table, as of an embedding.

pub(super) mod cpu;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{DType, Int, Tensor};

use super::backends::{TensorMap, TrackedInputs};
use super::mask::WithIndicesOf;
use super::{AttentionOps, GradientSlot};
use crate::checks::{Argument, assert_together};

/// Inputs of [`AttentionOps::select_rows`].
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

/// `table[indices]`; the gradient of the table is one scatter, of all calls that share `slot`.
///
/// # Shapes
/// - table `[rows, size]`, indices `[selected]`, result `[selected, size]`
///
/// # Panics
/// If the two are on different devices.
pub(crate) fn select_rows(
    table: Tensor<2>,
    indices: Tensor<1, Int>,
    slot: Option<GradientSlot>,
) -> Tensor<2> {
    let others = [Argument::on_device("indices", &indices)];
    assert_together("select_rows", Argument::on_device("table", &table), others);
    let is_wide = matches!(table.dtype(), DType::F32 | DType::F64);
    if !is_wide || table.dims().contains(&0) || indices.dims() == [0] {
        return table.select(0, indices);
    }
    let inputs = SelectRowsInputs {
        table: table.into_dispatch(),
        indices: indices.into_dispatch(),
        slot,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::select_rows(inputs))
}
