//! Tensors of flex.

use attention_kernels::Buffer;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Shape, TensorData, bf16, f16};

use super::buffer_bytes::buffer_bytes;
use super::cpu::{CpuBackend, CpuReal, Elements, ElementsMut, Strided};

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
        match tensor.dtype() {
            DType::F32 => {
                make_own::<f32>(tensor);
                ElementsMut::F32(tensor.storage_mut())
            }
            DType::F64 => {
                make_own::<f64>(tensor);
                ElementsMut::F64(tensor.storage_mut())
            }
            dtype => panic!("expected a tensor of f32 or f64, got {dtype:?}"),
        }
    }

    fn from_buffer<E: CpuReal>(elements: Buffer<E>, shape: Shape, _: &FlexTensor) -> FlexTensor {
        let data = TensorData::from_bytes(buffer_bytes(elements), shape, E::DTYPE);
        FlexTensor::from_data(data)
    }
}

/// Copies a contiguous tensor if its storage is another's, too, or has more than its elements.
fn make_own<E: CpuReal>(tensor: &mut FlexTensor) {
    let len = tensor.shape().num_elements();
    let all = Flex::elements(tensor);
    let Some(Strided { data, .. }) = E::of(&all) else {
        return;
    };
    let is_whole = tensor.layout().start_offset() == 0 && data.len() == len;
    if !is_whole || !tensor.is_unique() {
        let mut copy = Buffer::for_overwrite(len);
        copy.copy_from_slice(&data[..len]);
        *tensor = Flex::from_buffer(copy, tensor.shape(), tensor);
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
