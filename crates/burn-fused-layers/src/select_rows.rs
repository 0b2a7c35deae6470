//! Rows of a table, such as an embedding.

use burn::backend::Dispatch;
use burn::tensor::{DType, Int, Tensor};

use crate::harness::checks::{Argument, assert_together};
use crate::harness::deferred_gradients::GradientSlot;
use crate::ops::{LayerOps, SelectRowsInputs};

/// `table[indices]`; the gradient of the table is a single scatter over all calls that share `slot`.
///
/// # Shapes
/// - table `[rows, size]`, indices `[selected]`, result `[selected, size]`
///
/// # Panics
/// If table and indices are on different devices.
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
    Tensor::from_dispatch(<Dispatch as LayerOps>::select_rows(inputs))
}
