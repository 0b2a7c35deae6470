//! Tensors of flex.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, Shape, TensorData, bf16, f16};
use cpu_kernels::Buffer;

use super::buffer_bytes::buffer_bytes;
use super::{CpuBackend, CpuReal, Elements, ElementsMut, Strided};

impl CpuBackend for Flex {
    fn readable(tensor: FlexTensor) -> FlexTensor {
        let layout = tensor.layout();
        let is_forward = layout.strides().iter().all(|stride| *stride >= 0);
        let last_is_contiguous =
            layout.strides().last() == Some(&1) || layout.shape().iter().last() == Some(&1);
        if is_forward && last_is_contiguous {
            tensor
        } else {
            // Transposed or flipped.
            tensor.to_contiguous()
        }
    }

    fn contiguous(tensor: FlexTensor) -> FlexTensor {
        tensor.to_contiguous()
    }

    fn elements(tensor: &FlexTensor) -> Elements<'_> {
        match tensor.dtype() {
            DType::F32 => Elements::F32(strided(tensor, tensor.storage::<f32>())),
            DType::F64 => Elements::F64(strided(tensor, tensor.storage::<f64>())),
            DType::F16 => Elements::F16(strided(tensor, tensor.storage::<f16>())),
            DType::BF16 => Elements::Bf16(strided(tensor, tensor.storage::<bf16>())),
            dtype => panic!("expected a tensor of floats, got {dtype:?}"),
        }
    }

    fn elements_mut(tensor: &mut FlexTensor) -> ElementsMut<'_> {
        // A tensor that flex made contiguous occupies all of its storage.
        match tensor.dtype() {
            DType::F32 => ElementsMut::F32(tensor.storage_mut()),
            DType::F64 => ElementsMut::F64(tensor.storage_mut()),
            dtype => panic!("expected a tensor of f32 or f64, got {dtype:?}"),
        }
    }

    fn from_buffer<E: CpuReal>(elements: Buffer<E>, shape: Shape, _: &FlexTensor) -> FlexTensor {
        let data = TensorData::from_bytes(buffer_bytes(elements), shape, E::DTYPE);
        FlexTensor::from_data(data)
    }
}

/// The elements of a readable tensor, of all of its storage.
fn strided<'a, E>(tensor: &FlexTensor, storage: &'a [E]) -> Strided<'a, E> {
    let layout = tensor.layout();
    let (_, strides) = layout.strides().split_last().unwrap_or((&1, &[]));
    Strided {
        data: storage.get(layout.start_offset()..).unwrap_or_default(),
        strides: strides.iter().map(|stride| stride.unsigned_abs()).collect(),
    }
}
