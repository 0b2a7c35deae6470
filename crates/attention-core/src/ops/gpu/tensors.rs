//! Tensors of a device, as the kernels take and make them.

use burn::backend::TensorMetadata;
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::tensor::{DType, FloatDType, IntDType, Shape, bf16, f16};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice, cubecl};
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::{TensorMap, TrackedInputs};
use cubecl::client::Client;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// The most bytes that a tensor on a device may have.
pub(in crate::ops) fn largest_buffer(device: &CubeDevice) -> usize {
    largest_buffer_of(&device.client())
}

fn largest_buffer_of(client: &Client) -> usize {
    let bytes = client.properties().memory.max_page_size;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// An uninitialised tensor beside `like`.
///
/// # Panics
/// If the device has no buffer that large: what a kernel writes beyond its limit would be lost without a word.
pub(super) fn empty(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
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

/// `cubes` cubes, in whatever dimensions the device counts them.
pub(super) fn cube_count(client: &Client, cubes: usize) -> CubeCount {
    cubecl::calculate_cube_count_elemwise(client, cubes, CubeDim::new_single())
}

/// Inputs whose tensors the kernels can read.
pub(in crate::ops) fn readable<I, const N: usize>(inputs: I) -> I::On<CubeBackend>
where
    I: TrackedInputs<CubeBackend, N>,
{
    inputs.map(&mut Contiguous)
}

struct Contiguous;

impl TensorMap<CubeBackend, CubeBackend> for Contiguous {
    fn tracked(&mut self, tensor: CubeTensor) -> CubeTensor {
        contiguous(tensor)
    }

    fn tracked_option(
        &mut self,
        tensor: OptionalTensor<CubeBackend>,
    ) -> OptionalTensor<CubeBackend> {
        tensor.into_option().map(contiguous).into()
    }

    fn constant(&mut self, tensor: OptionalTensor<CubeBackend>) -> OptionalTensor<CubeBackend> {
        tensor
    }
}

/// The elements one after the other.
pub(super) fn contiguous(tensor: CubeTensor) -> CubeTensor {
    into_contiguous(tensor)
}

/// The tensor in another type, if it is not yet of it, and contiguous then: what is cast may be padded.
pub(in crate::ops) fn cast(tensor: CubeTensor, dtype: DType) -> CubeTensor {
    if tensor.dtype() == dtype {
        tensor
    } else {
        contiguous(CubeBackend::float_cast(tensor, FloatDType::from(dtype)))
    }
}

/// Integers one after the other, in 32 bits.
pub(super) fn contiguous_i32(tensor: CubeTensor) -> CubeTensor {
    let is_wide = tensor.dtype() != DType::I32;
    contiguous(if is_wide {
        CubeBackend::int_cast(tensor, IntDType::I32)
    } else {
        tensor
    })
}

/// The type that elements are stored as.
pub(super) fn element_type(dtype: DType) -> ElemType {
    match dtype {
        DType::F16 => f16::elem_type_native(),
        DType::BF16 => bf16::elem_type_native(),
        _ => f32::elem_type_native(),
    }
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use cubecl::wgpu::WgpuDevice;

    use super::*;

    #[test]
    #[should_panic(expected = "bytes expected, which is what a buffer of")]
    fn a_tensor_beyond_the_largest_buffer_is_refused() {
        let device = cubecl::Device::Wgpu(WgpuDevice::default());
        let bytes = largest_buffer(&device);
        let like = CubeBackend::float_zeros([1].into(), &device, FloatDType::F32);
        empty(&like, [bytes / 4 + 1], DType::F32);
    }
}
