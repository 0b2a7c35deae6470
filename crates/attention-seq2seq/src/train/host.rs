//! The elements of tensors that lie in this process's memory.

use burn::tensor::{DType, Tensor, TensorData};
use burn_fused_layers::is_in_host_memory;

/// The number of elements that a thread takes at a time: those of four tensors fit in its cache.
pub(super) const CHUNK: usize = 1 << 14;

/// Whether the tensor is in f32 and in this process's memory.
pub(super) fn is_f32_on_host<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && is_in_host_memory(&tensor.device())
}

/// The elements of data in f32.
///
/// # Panics
/// If the data are not in f32.
pub(super) fn elements(data: &mut TensorData) -> &mut [f32] {
    data.as_mut_slice()
        .unwrap_or_else(|error| panic!("expected data in f32: {error:?}"))
}
