//! A backend, and its table of kernels.

use burn::backend::tensor::{Device, FloatTensor, IntTensor};
use burn::backend::{Backend, BackendTypes, TensorMetadata};
use burn::tensor::DType;

use super::activate::ActivateInputs;
use super::activate_linear::ActivateLinearInputs;
use super::dropout_factors::DropoutFactorsInputs;
use super::linear::LinearInputs;
use super::linear_cross_entropy::LinearCrossEntropyInputs;
use super::linear_cross_entropy::cpu::Unscaled;
use super::normalize::{NormalizeInputs, Normalized};
use super::recurrent::{Recurred, RecurrentInputs};
use super::select_rows::SelectRowsInputs;
use super::select_rows::cpu::Selected;
use crate::harness::kernel::{Kernel, TrainedKernel};
use crate::paths::{self, Operation};

/// A backend, and the kernels of layers that it has. One without kernels says `impl LayerBackend for .. {}`.
pub trait LayerBackend: Backend {
    #[doc(hidden)]
    const LAYERS: LayerKernels<Self> = LayerKernels::NONE;
}

/// The kernels of a backend: a line for each operation that may have one.
pub struct LayerKernels<B: Backend> {
    /// Whether an operation's kernel runs on a device, with tensors of a type; else the definition does.
    pub(super) runs_on: fn(&Device<B>, DType, Operation) -> bool,
    pub(super) linear: Option<Kernel<B, LinearInputs<B>, LinearInputs<B>, 3>>,
    pub(super) select_rows: Option<Kernel<B, SelectRowsInputs<B>, Selected<B>, 1>>,
    pub(super) activate: Option<Kernel<B, ActivateInputs<B>, ActivateInputs<B>, 2>>,
    pub(super) activate_linear:
        Option<Kernel<B, ActivateLinearInputs<B>, ActivateLinearInputs<B>, 4>>,
    pub(super) normalize: Option<Kernel<B, NormalizeInputs<B>, Normalized<B>, 3>>,
    pub(super) dropout_factors: Option<fn(DropoutFactorsInputs<B>) -> FloatTensor<B>>,
    pub(super) linear_cross_entropy: Option<LinearCrossEntropyKernel<B>>,
    pub(super) recurrent: Option<RecurrentKernel<B>>,
}

type LinearCrossEntropyKernel<B> =
    TrainedKernel<B, LinearCrossEntropyInputs<B>, (FloatTensor<B>, IntTensor<B>), Unscaled<B>, 3>;

type RecurrentKernel<B> = TrainedKernel<B, RecurrentInputs<B>, FloatTensor<B>, Recurred<B>, 4>;

impl<B: Backend> LayerKernels<B> {
    /// None: every operation is composed.
    pub(super) const NONE: Self = Self {
        runs_on: |_, _, _| false,
        linear: None,
        select_rows: None,
        activate: None,
        activate_linear: None,
        normalize: None,
        dropout_factors: None,
        linear_cross_entropy: None,
        recurrent: None,
    };

    /// The kernel, if it runs with tensors like this one, of the backend or of its autodiff.
    pub(super) fn which<A, K>(
        &self,
        operation: Operation,
        kernel: Option<K>,
        like: &FloatTensor<A>,
    ) -> Option<K>
    where
        A: Backend + BackendTypes<Device = Device<B>>,
    {
        let has = || (self.runs_on)(&like.device(), like.dtype(), operation);
        paths::chosen::<A, K>(operation, kernel, like, has)
    }
}
