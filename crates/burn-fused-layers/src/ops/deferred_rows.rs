//! Deposits for the gradient of a weight or a table that many calls read; see
//! [`deferred_gradients`](crate::harness::deferred_gradients).

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use cpu_kernels::{Level, ProductStart, product_sum};

use super::select_rows;
use crate::harness::deferred_gradients::{Deposit, downcast, marker};
use crate::harness::host::{CpuBackend, CpuReal, matrix, tensor, with_real, zeros};

/// A call's deposit for the gradient of a weight that it shares with other calls.
#[derive(Clone, Debug)]
pub(super) enum DeferredRows<B: Backend> {
    /// For a weight: `input^T gradient`.
    Product {
        /// The left operand of the weight, `[rows, in]`.
        input: FloatTensor<B>,
        /// The gradient of the result, `[rows, out]`.
        gradient: FloatTensor<B>,
    },
    /// For a table: adds each row of the gradient to the table's row of that index.
    Selected {
        /// `[selected]`
        indices: IntTensor<B>,
        /// `[selected, size]`
        gradient: FloatTensor<B>,
    },
}

impl<B: CpuBackend> Deposit<B> for DeferredRows<B> {
    fn marker(&self) -> FloatTensor<B> {
        let (Self::Product { gradient, .. } | Self::Selected { gradient, .. }) = self;
        marker::<B, 2>(gradient)
    }

    fn sum(
        self: Box<Self>,
        others: Vec<Box<dyn Deposit<B>>>,
        shared: FloatTensor<B>,
    ) -> FloatTensor<B> {
        let (mut rows, mut selected) = (Vec::new(), Vec::new());
        for deposit in downcast::<B, Self>(others).into_iter().chain([*self]) {
            match deposit {
                Self::Product { input, gradient } => rows.push([input, gradient]),
                Self::Selected { indices, gradient } => selected.push((indices, gradient)),
            }
        }
        with_real!(shared.dtype(), E => {
            let mut sum = zeros::<E>(&shared.shape());
            add_products::<B, E>(rows, &mut sum);
            if !selected.is_empty() {
                select_rows::cpu::add::<B, E>(selected, &shared.shape(), &mut sum);
            }
            tensor::<B, E>(sum, shared.shape(), shared.dtype(), &shared)
        })
    }
}

/// Adds the gradient of a weight, from the inputs that it multiplied and the gradients of the results.
fn add_products<B: CpuBackend, E: CpuReal>(rows: Vec<[FloatTensor<B>; 2]>, sum: &mut [E]) {
    if rows.is_empty() {
        return;
    }
    let rows: Vec<_> = rows.into_iter().map(|rows| rows.map(B::readable)).collect();
    let (inputs, gradients): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(|[input, gradient]| {
            let input = matrix::<B, E>(input).transposed();
            (input, matrix::<B, E>(gradient))
        })
        .unzip();
    let level = Level::current();
    product_sum(level, &inputs, &gradients, ProductStart::Sum, sum);
}
