//! The operations, as a Burn backend extension, and backends with their tables of kernels.
#![allow(
    unused_parens,
    reason = "in `operations!` a result alone is as one of several"
)]

use burn::backend::Backend;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::DType;

use super::recurrent::states::StepsRead;
use super::{
    activate, activate_linear, dropout_factors, linear, linear_cross_entropy, normalize, recurrent,
    select_rows,
};
use crate::harness::deferred_gradients::GradientSlot;
#[cfg(feature = "autodiff")]
use crate::harness::differentiate;
use crate::harness::operations::operations;

/// The inputs of each operation.
pub(crate) mod inputs {
    pub use crate::ops::activate::ActivateInputs;
    pub use crate::ops::activate_linear::ActivateLinearInputs;
    pub use crate::ops::dropout_factors::DropoutFactorsInputs;
    pub use crate::ops::linear::LinearInputs;
    pub use crate::ops::linear_cross_entropy::LinearCrossEntropyInputs;
    pub use crate::ops::normalize::NormalizeInputs;
    pub use crate::ops::recurrent::RecurrentInputs;
    pub use crate::ops::select_rows::SelectRowsInputs;
}
use inputs::*;

/// A backend with its kernels for layers; one without kernels has an empty implementation.
pub trait LayerBackend: Backend {
    #[doc(hidden)]
    const LAYERS: LayerKernels<Self> = LayerKernels::NONE;
}

operations! {
    /// The operations of layers. Each default body runs the backend's kernel, or else the definition.
    pub trait LayerOps: LayerBackend, LayerKernels in LAYERS;
    paths OPERATIONS;
    cpu runs on |_, dtype, operation| {
        // These two are compiled where they are called.
        let needs_none = || matches!(operation.name(), "dropout_factors" | "select_rows");
        cfg!(feature = "f64") || dtype != DType::F64 || needs_none()
    };

    kernels {
        /// `input weight + bias`
        fn linear(LinearInputs) -> FloatTensor
            saves [LinearInputs<B>; 3], definition linear::composed::forward;
            cpu [linear::cpu]

        /// `table[indices]`
        fn select_rows(SelectRowsInputs) -> FloatTensor
            saves [select_rows::cpu::Selected<B>; 1], definition select_rows::composed;
            cpu [select_rows::cpu]

        /// `f(input)`, or `f(input) * factor`
        fn activate(ActivateInputs) -> FloatTensor
            saves [ActivateInputs<B>; 2], node activate::composed::kernel;
            cpu [activate::cpu]

        /// `f(input) weight + bias`, or `(f(input) * factor) weight + bias`
        fn activate_linear(ActivateLinearInputs) -> FloatTensor
            saves [ActivateLinearInputs<B>; 4], definition activate_linear::composed::forward;
            cpu [activate_linear::cpu]

        /// `(input - mean) / sqrt(variance + epsilon) * gain + bias` for each row, or by its root mean square.
        fn normalize(NormalizeInputs) -> FloatTensor
            saves [normalize::Normalized<B>; 3], node normalize::composed::kernel;
            cpu [normalize::cpu]

        /// A linear layer to classes with its cross-entropy: the loss, `[1]`, and the most likely class of each row,
        /// `[rows]`, which has no gradient.
        fn linear_cross_entropy(LinearCrossEntropyInputs) -> FloatTensor and IntTensor
            saves [linear_cross_entropy::cpu::Unscaled<B>; 3], definition linear_cross_entropy::composed::forward;
            cpu [trained linear_cross_entropy::cpu]

        /// A recurrent layer in one direction: the states after each step.
        fn recurrent(RecurrentInputs) -> FloatTensor
            saves [recurrent::Recurred<B>; 4], node recurrent::gradient::kernel;
            cpu [trained recurrent::cpu]
    }

    constants {
        /// Factors of dropout: 0 with probability `p`, else `1 / (1 - p)`. They have no gradient.
        fn dropout_factors(DropoutFactorsInputs) definition dropout_factors::composed;
            cpu dropout_factors::cpu;
    }

    definitions {}

    others {
        /// One of the states that [`recurrent`](Self::recurrent) returned, `[1, batch, steps, hidden_size]`, after each
        /// step or only after the last. In training its gradient may be deposited in `slot`.
        fn read_state(states: FloatTensor<Self>, index: usize, steps: StepsRead, slot: GradientSlot) {
            drop(slot);
            recurrent::states::read::<Self>(states, index, steps)
        } trained {
            recurrent::states::read_trained::<B, C>(states, index, steps, slot)
        }

        /// `rows` for one of several readers. In training its gradient goes to `source`, of which `rows` is a view, or
        /// a copy with padding cleared. The gradient may be computed from the readers' deposits in `slot`.
        fn read_shared(source: FloatTensor<Self>, rows: FloatTensor<Self>, slot: GradientSlot) {
            drop((source, slot));
            rows
        } trained {
            differentiate::read_shared::<B, C>(source, rows, slot)
        }
    }
}
