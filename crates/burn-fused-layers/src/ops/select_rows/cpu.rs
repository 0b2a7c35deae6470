//! Runs in the kernels of `cpu-kernels`; the gradient is a single scatter.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;
use cpu_kernels::{add_rows, copy_rows};

use super::SelectRowsInputs;
use crate::harness::deferred_gradients::Deferral;
use crate::harness::host::{
    CpuBackend, CpuReal, elements, indices, matrix, tensor, unwritten, with_real, zeros,
};
use crate::harness::kernel::{Asked, Gradient};
use crate::ops::deferred_rows::DeferredRows;

/// The rows, and what the backward pass needs.
pub(crate) fn forward<B: CpuBackend>(inputs: SelectRowsInputs<B>) -> (FloatTensor<B>, Selected<B>) {
    let table = B::readable(inputs.table);
    let saved = Selected {
        indices: inputs.indices.clone(),
        table: table.shape(),
    };
    let indices = indices::<B>(inputs.indices);
    let [_, size] = table.shape().dims();
    let shape = [indices.len(), size];
    let rows = with_real!(table.dtype(), E => {
        let mut rows = unwritten::<E>(&shape.into());
        copy_rows(matrix::<B, E>(&table), &indices, &mut rows);
        tensor::<B, E>(rows, shape, E::DTYPE, &table)
    });
    (rows, saved)
}

/// The selection.
#[derive(Clone, Debug)]
pub(crate) struct Selected<B: Backend> {
    indices: IntTensor<B>,
    /// The shape of the table.
    table: Shape,
}

/// The gradient of the table.
pub(crate) fn backward<B: CpuBackend>(
    saved: Selected<B>,
    gradient: FloatTensor<B>,
    asked: Asked<1>,
) -> [Gradient<B>; 1] {
    let Selected { indices, table } = saved;
    if asked.deferral == Deferral::Allowed {
        return [Gradient::Deferred(Box::new(DeferredRows::Selected {
            indices,
            gradient,
        }))];
    }
    with_real!(gradient.dtype(), E => {
        let mut sum = zeros::<E>(&table);
        add::<B, E>(vec![(indices, gradient.clone())], &table, &mut sum);
        [Gradient::Whole(tensor::<B, E>(sum, table, E::DTYPE, &gradient))]
    })
}

/// Adds the gradients of rows to the table's gradient.
pub(crate) fn add<B: CpuBackend, E: CpuReal>(
    selected: Vec<(IntTensor<B>, FloatTensor<B>)>,
    table: &Shape,
    sum: &mut [E],
) {
    let [_, size] = table.dims();
    let selected: Vec<_> = selected
        .into_iter()
        .map(|(rows, gradient)| (indices::<B>(rows), B::contiguous(gradient)))
        .collect();
    let parts: Vec<_> = selected
        .iter()
        .map(|(indices, gradient)| (indices.as_slice(), elements::<B, E>(gradient)))
        .collect();
    add_rows(&parts, size, sum);
}
