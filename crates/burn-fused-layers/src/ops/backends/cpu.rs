//! The kernels of `cpu-kernels`, for backends whose tensors lie in this process's memory.

use burn::tensor::DType;

use crate::harness::host::CpuBackend;
use crate::harness::kernel::{Kernel, TrainedKernel};
use crate::ops::layer_backend::LayerKernels;
use crate::ops::{
    activate, activate_linear, dropout_factors, linear, linear_cross_entropy, normalize, recurrent,
    select_rows,
};
use crate::paths::Operation;

/// The kernels, a line for each operation.
pub(super) const fn kernels<B: CpuBackend>() -> LayerKernels<B> {
    LayerKernels {
        runs_on: |_, dtype, operation| {
            // These two are compiled where they are called.
            let needs_none = matches!(operation, Operation::DropoutFactors | Operation::SelectRows);
            cfg!(feature = "f64") || dtype != DType::F64 || needs_none
        },
        linear: Some(Kernel {
            forward: linear::cpu::forward,
            backward: linear::cpu::backward,
        }),
        select_rows: Some(Kernel {
            forward: select_rows::cpu::forward,
            backward: select_rows::cpu::backward,
        }),
        activate: Some(Kernel {
            forward: activate::cpu::forward,
            backward: activate::cpu::backward,
        }),
        activate_linear: Some(Kernel {
            forward: activate_linear::cpu::forward,
            backward: activate_linear::cpu::backward,
        }),
        normalize: Some(Kernel {
            forward: normalize::cpu::forward,
            backward: normalize::cpu::backward,
        }),
        dropout_factors: Some(dropout_factors::cpu),
        linear_cross_entropy: Some(TrainedKernel {
            infer: linear_cross_entropy::cpu::infer,
            train: linear_cross_entropy::cpu::forward,
            backward: linear_cross_entropy::cpu::backward,
        }),
        recurrent: Some(TrainedKernel {
            infer: recurrent::cpu::infer,
            train: |inputs, _| recurrent::cpu::forward(inputs),
            backward: recurrent::cpu::backward,
        }),
    }
}
