//! The supported backends, and the kernels of each. All that depends on enabled backends is decided in this file and in
//! the attribute of `AttentionOps` for Burn's dispatch.
//!
//! | backend | runs |
//! | --- | --- |
//! | flex, ndarray | the kernels of `attention-kernels`, in training too |
//! | CubeCL's (wgpu, cuda, ...), with fusion or without | the kernels of `attention-gpu`, in training too |
//! | remote devices | the definitions, one Burn operation at a time |
//!
//! An operation without a kernel, or whose kernel a device cannot run, is composed of Burn's operations: the
//! definition.

#[cfg(feature = "fusion")]
mod fusion;

#[cfg(any(feature = "autodiff", feature = "cubecl-backend", feature = "fusion"))]
use burn::backend::tensor::Device as BackendDevice;
use burn::backend::{Dispatch, DispatchDevice};
use burn::tensor::{DType, Device};

use burn_fused_layers::paths::Operation;

use super::attention_ops::AttentionBackend;

#[cfg(feature = "flex")]
impl AttentionBackend for burn::backend::Flex {
    const KERNELS: super::attention_ops::Kernels<Self> = super::attention_ops::cpu_kernels();
}

#[cfg(feature = "ndarray")]
impl AttentionBackend for burn::backend::NdArray {
    const KERNELS: super::attention_ops::Kernels<Self> = super::attention_ops::cpu_kernels();
}

#[cfg(feature = "cubecl-backend")]
impl AttentionBackend for burn_cubecl::CubeBackend {
    const KERNELS: super::attention_ops::Kernels<Self> = super::attention_ops::Kernels {
        runs_on: |device, dtype, _| attention_gpu::runs_on(device, dtype),
        ..super::attention_ops::GPU_KERNELS
    };

    fn largest_buffer(device: &BackendDevice<Self>) -> usize {
        attention_gpu::largest_buffer(device)
    }
}

#[cfg(feature = "remote")]
impl<C: burn_router::RouterChannel> AttentionBackend for burn_router::BackendRouter<C> {}

#[cfg(feature = "fusion")]
impl<B> AttentionBackend for burn::backend::fusion::Fusion<B>
where
    B: burn::backend::fusion::FusionBackend + AttentionBackend,
{
    const KERNELS: super::attention_ops::Kernels<Self> = fusion::kernels::<B>();

    fn largest_buffer(device: &BackendDevice<Self>) -> usize {
        B::largest_buffer(device)
    }
}

#[cfg(feature = "autodiff")]
impl<B, C> AttentionBackend for burn::backend::Autodiff<B, C>
where
    B: AttentionBackend,
    C: burn_autodiff::checkpoint::strategy::CheckpointStrategy,
{
    fn largest_buffer(device: &BackendDevice<Self>) -> usize {
        B::largest_buffer(device)
    }
}

impl AttentionBackend for Dispatch {}

#[cfg(feature = "flex")]
impl super::AttentionOps for burn::backend::Flex {}

#[cfg(feature = "ndarray")]
impl super::AttentionOps for burn::backend::NdArray {}

#[cfg(feature = "cubecl-backend")]
impl super::AttentionOps for burn_cubecl::CubeBackend {}

#[cfg(feature = "remote")]
impl<C: burn_router::RouterChannel> super::AttentionOps for burn_router::BackendRouter<C> {}

/// Whether an operation with a type runs in the CPU kernels on a device. Only these call a user's own functions:
/// elsewhere the functions are composed before they reach a backend.
pub(crate) fn runs_on_host(operation: Operation, device: &Device, dtype: DType) -> bool {
    fn is_host(device: &DispatchDevice) -> bool {
        match device {
            #[cfg(feature = "flex")]
            DispatchDevice::Flex(_) => true,
            #[cfg(feature = "ndarray")]
            DispatchDevice::NdArray(_) => true,
            #[cfg(feature = "autodiff")]
            DispatchDevice::Autodiff(device) => is_host(device),
            #[allow(unreachable_patterns, reason = "where no other backend is enabled")]
            _ => false,
        }
    }
    let has_type = cfg!(feature = "f64") || dtype != DType::F64;
    has_type && operation.is_on() && is_host(device.as_dispatch())
}

/// `device` as CubeCL's device.
#[cfg(feature = "cubecl-backend")]
pub(crate) fn cube_device(device: &Device) -> Option<burn_cubecl::CubeDevice> {
    fn of(device: &DispatchDevice) -> Option<burn_cubecl::CubeDevice> {
        match device {
            DispatchDevice::Cube(device) => Some(device.clone()),
            #[cfg(feature = "autodiff")]
            DispatchDevice::Autodiff(device) => of(device),
            #[allow(unreachable_patterns, reason = "where no other backend is enabled")]
            _ => None,
        }
    }
    of(device.as_dispatch())
}
