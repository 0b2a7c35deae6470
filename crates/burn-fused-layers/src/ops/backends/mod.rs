//! The supported backends, and the kernels of each. All that depends on enabled backends is decided in this file, in
//! the attribute of `LayerOps` for Burn's dispatch, and in `harness::host`.
//!
//! | backend | runs |
//! | --- | --- |
//! | flex, ndarray | the kernels of `cpu-kernels`, in training too |
//! | CubeCL's (wgpu, cuda, ...), with fusion or without | the definitions; activations, |
//! | | normalizations and recurrent layers are a single node each in training, with a gradient of their own |
//! | remote devices | the definitions, one Burn operation at a time |

use burn::backend::{Dispatch, DispatchDevice};
use burn::tensor::Device;

use super::layer_ops::LayerBackend;

#[cfg(feature = "flex")]
impl LayerBackend for burn::backend::Flex {
    const LAYERS: super::layer_ops::LayerKernels<Self> = super::layer_ops::cpu_kernels();
}

#[cfg(feature = "ndarray")]
impl LayerBackend for burn::backend::NdArray {
    const LAYERS: super::layer_ops::LayerKernels<Self> = super::layer_ops::cpu_kernels();
}

#[cfg(feature = "cubecl-backend")]
impl LayerBackend for burn_cubecl::CubeBackend {}

#[cfg(feature = "remote")]
impl<C: burn_router::RouterChannel> LayerBackend for burn_router::BackendRouter<C> {}

#[cfg(feature = "fusion")]
impl<B: burn::backend::fusion::FusionBackend + LayerBackend> LayerBackend
    for burn::backend::fusion::Fusion<B>
{
}

#[cfg(feature = "autodiff")]
impl<B, C> LayerBackend for burn::backend::Autodiff<B, C>
where
    B: LayerBackend,
    C: burn_autodiff::checkpoint::strategy::CheckpointStrategy,
{
}

impl LayerBackend for Dispatch {}

#[cfg(feature = "flex")]
impl super::LayerOps for burn::backend::Flex {}

#[cfg(feature = "ndarray")]
impl super::LayerOps for burn::backend::NdArray {}

#[cfg(feature = "cubecl-backend")]
impl super::LayerOps for burn_cubecl::CubeBackend {}

#[cfg(feature = "remote")]
impl<C: burn_router::RouterChannel> super::LayerOps for burn_router::BackendRouter<C> {}

/// Whether tensors of `device` lie in this process's memory, where the CPU kernels read them: then `Tensor::into_data`
/// does not wait, and does not copy a contiguous tensor that nobody else holds.
///
/// ```
/// use burn::prelude::Device;
/// use burn_fused_layers::is_in_host_memory;
///
/// assert!(is_in_host_memory(&Device::flex().autodiff()));
/// ```
pub fn is_in_host_memory(device: &Device) -> bool {
    is_in_host_memory_of(device.as_dispatch())
}

fn is_in_host_memory_of(device: &DispatchDevice) -> bool {
    match device {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "ndarray")]
        DispatchDevice::NdArray(_) => true,
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(device) => is_in_host_memory_of(device),
        #[allow(unreachable_patterns, reason = "where no other backend is enabled")]
        _ => false,
    }
}
