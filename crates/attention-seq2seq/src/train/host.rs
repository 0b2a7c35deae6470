//! The elements of tensors that lie in this process's memory.

use attention_core::is_in_host_memory;
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};

/// The elements that a thread takes at a time: of four tensors they fit in its cache.
pub(super) const CHUNK: usize = 1 << 14;

/// Whether [`into_elements`] takes the tensor.
pub(super) fn has_elements<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && is_in_host_memory(&tensor.device())
}

/// The elements of a tensor in f32, without a copy where nobody else has it.
///
/// # Panics
/// If the tensor is not in f32.
pub(super) fn into_elements<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data();
    data.try_into_vec()
        .unwrap_or_else(|error| panic!("expected a tensor in f32: {error:?}"))
}

/// The tensor of these elements, without a copy.
pub(super) fn from_elements<const D: usize>(
    elements: Vec<f32>,
    shape: &Shape,
    device: &Device,
) -> Tensor<D> {
    let data = TensorData::new(elements, shape.clone());
    Tensor::from_data(data, (device, DType::F32))
}
