//! The backend of all devices that CubeCL reaches.

use burn_cubecl::CubeBackend;
use burn_fused_layers::harness::kernel::{Kernel, TrainedKernel};

use crate::ops::attention_backend::Kernels;
use crate::ops::{additive_score, attention, masked_softmax};

/// The kernels, a line for each operation.
pub(super) const fn kernels() -> Kernels<CubeBackend> {
    Kernels {
        runs_on: |device, dtype, _| attention_gpu::runs_on(device, dtype),
        attention: Some(TrainedKernel {
            infer: attention::gpu::infer,
            train: attention::gpu::train,
            backward: attention::gpu::backward,
        }),
        additive_score: Some(Kernel {
            forward: additive_score::gpu::forward,
            backward: additive_score::gpu::backward,
        }),
        masked_softmax: Some(Kernel {
            forward: masked_softmax::gpu::forward,
            backward: masked_softmax::gpu::backward,
        }),
        ..Kernels::NONE
    }
}
