//! Tensors of ndarray, which has no half precision.

use burn::backend::ndarray::NdArrayTensor;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{NdArray, TensorMetadata};
use burn::tensor::{Shape, TensorData};
use cpu_kernels::Buffer;

use super::{CpuBackend, CpuReal, Elements, ElementsMut, Strided};

impl CpuBackend for NdArray {
    fn readable(tensor: NdArrayTensor) -> NdArrayTensor {
        Self::contiguous(tensor)
    }

    fn contiguous(tensor: NdArrayTensor) -> NdArrayTensor {
        let is_standard = match &tensor {
            NdArrayTensor::F32(storage) => storage.view().is_standard_layout(),
            NdArrayTensor::F64(storage) => storage.view().is_standard_layout(),
            _ => true,
        };
        if is_standard {
            return tensor;
        }
        let device = tensor.device();
        let data = burn::tensor::try_read_sync(Self::float_into_data(tensor))
            .expect("a tensor in memory is read at once");
        Self::float_from_data(data.expect("a tensor in memory can be read"), &device)
    }

    fn elements(tensor: &NdArrayTensor) -> Elements<'_> {
        let shape = tensor.shape();
        match tensor {
            NdArrayTensor::F32(storage) => {
                Elements::F32(strided(storage.view().to_slice(), &shape))
            }
            NdArrayTensor::F64(storage) => {
                Elements::F64(strided(storage.view().to_slice(), &shape))
            }
            _ => panic!("expected a tensor of f32 or f64, got {:?}", tensor.dtype()),
        }
    }

    fn elements_mut(tensor: &mut NdArrayTensor) -> ElementsMut<'_> {
        let elements = match tensor {
            NdArrayTensor::F32(storage) => {
                let elements = storage.ensure_owned().as_slice_mut();
                elements.map(ElementsMut::F32)
            }
            NdArrayTensor::F64(storage) => {
                let elements = storage.ensure_owned().as_slice_mut();
                elements.map(ElementsMut::F64)
            }
            _ => None,
        };
        elements.expect("a contiguous tensor of f32 or f64")
    }

    fn from_buffer<E: CpuReal>(
        elements: Buffer<E>,
        shape: Shape,
        like: &NdArrayTensor,
    ) -> NdArrayTensor {
        let data = TensorData::new(elements.into_vec(), shape);
        Self::float_from_data(data, &like.device())
    }
}

/// The elements of a contiguous tensor.
fn strided<'a, E>(data: Option<&'a [E]>, shape: &Shape) -> Strided<'a, E> {
    let mut strides = vec![1; shape.num_dims()];
    for axis in (1..shape.num_dims()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides.pop();
    Strided {
        data: data.expect("a readable tensor is contiguous"),
        strides,
    }
}
