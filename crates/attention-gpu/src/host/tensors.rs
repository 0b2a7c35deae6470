//! Tensors of a device, as the kernels read and create them.

use burn_backend::TensorMetadata;
use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{DType, FloatDType, IntDType, Shape, bf16, f16};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::client::Client;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use crate::host::device::largest_buffer_of;

/// An uninitialised tensor on the device of `like`.
///
/// # Panics
/// If the device has no buffer that large, in which case a kernel's writes beyond its end would be lost silently.
pub(crate) fn empty(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    let shape = shape.into();
    let elements = shape.iter().copied();
    let bytes = elements.fold(dtype.size(), usize::saturating_mul);
    let largest = largest_buffer_of(&like.client);
    assert!(
        bytes <= largest,
        "attention: a tensor of at most {largest} bytes expected, which is what a buffer of {:?} holds; {:?} takes \
         {bytes}",
        like.device,
        shape.as_slice()
    );
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, dtype)
}

/// A count of `cubes` cubes, spread over the dimensions in which the device counts them.
pub(crate) fn cube_count(client: &Client, cubes: usize) -> CubeCount {
    cubecl::calculate_cube_count_elemwise(client, cubes, CubeDim::new_single())
}

/// The tensor with contiguous elements, as the kernels read it.
pub fn contiguous(tensor: CubeTensor) -> CubeTensor {
    into_contiguous(tensor)
}

/// The tensor in another type. A cast tensor is also made contiguous, because the result of a cast may be padded.
pub fn cast(tensor: CubeTensor, dtype: DType) -> CubeTensor {
    if tensor.dtype() == dtype {
        tensor
    } else {
        contiguous(CubeBackend::float_cast(tensor, FloatDType::from(dtype)))
    }
}

/// Integers in 32 bits, contiguous.
pub(crate) fn contiguous_i32(tensor: CubeTensor) -> CubeTensor {
    let is_wide = tensor.dtype() != DType::I32;
    contiguous(if is_wide {
        CubeBackend::int_cast(tensor, IntDType::I32)
    } else {
        tensor
    })
}

/// The type of stored elements.
pub(crate) fn element_type(dtype: DType) -> ElemType {
    match dtype {
        DType::F16 => f16::elem_type_native(),
        DType::BF16 => bf16::elem_type_native(),
        _ => f32::elem_type_native(),
    }
}

#[cfg(test)]
mod tests {
    use cubecl::wgpu::WgpuDevice;

    use super::*;

    #[test]
    #[should_panic(expected = "bytes expected, which is what a buffer of")]
    fn a_tensor_beyond_the_largest_buffer_is_refused() {
        let device = cubecl::Device::Wgpu(WgpuDevice::default());
        let bytes = crate::largest_buffer(&device);
        let like = CubeBackend::float_zeros([1].into(), &device, FloatDType::F32);
        empty(&like, [bytes / 4 + 1], DType::F32);
    }
}
