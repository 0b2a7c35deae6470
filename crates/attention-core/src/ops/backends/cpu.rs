//! The kernels of `attention-kernels`, for backends whose tensors lie in this process's memory.

use burn::tensor::DType;
use burn_fused_layers::harness::host::CpuBackend;
use burn_fused_layers::harness::kernel::{Kernel, TrainedKernel};

use crate::ops::attention_backend::Kernels;
use crate::ops::{additive_score, attention, masked_softmax, pack_additive_keys, rotate};

/// The kernels, a line for each operation.
pub(super) const fn kernels<B: CpuBackend>() -> Kernels<B> {
    Kernels {
        runs_on: |_, dtype, _| cfg!(feature = "f64") || dtype != DType::F64,
        attention: Some(TrainedKernel {
            infer: attention::cpu::infer,
            train: attention::cpu::train,
            backward: attention::cpu::backward,
        }),
        additive_score: Some(Kernel {
            forward: additive_score::cpu::forward,
            backward: additive_score::cpu::backward,
        }),
        masked_softmax: Some(Kernel {
            forward: masked_softmax::cpu::forward,
            backward: masked_softmax::cpu::backward,
        }),
        rotate: Some(Kernel {
            forward: rotate::cpu::forward,
            backward: rotate::cpu::backward,
        }),
        pack_additive_keys: Some(pack_additive_keys::cpu),
    }
}
