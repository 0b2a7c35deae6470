//! Tensors in this process's memory as slices for CPU kernels, and back.
//!
//! Half precision is read in place, and computed in `f32`: the kernels widen what they read, and results are rounded
//! once.

#[cfg(feature = "flex")]
mod buffer_bytes;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "ndarray")]
mod ndarray;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Element, FloatDType, Shape, bf16, f16, try_read_sync};
use cpu_kernels::{Buffer, LayerReal, Matrix};

use super::kernel::Gradient;
use super::tracked::TrackedInputs;
use super::wide::cast;

/// A backend whose tensors the kernels can read.
pub trait CpuBackend: Backend {
    /// The same elements with a contiguous last axis; copied only if necessary.
    fn readable(tensor: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The same elements, contiguous; copied only if necessary.
    fn contiguous(tensor: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The elements of a readable tensor.
    fn elements(tensor: &FloatTensor<Self>) -> Elements<'_>;

    /// The elements of a contiguous tensor of `f32` or `f64`, copied first if another tensor shares them.
    fn elements_mut(tensor: &mut FloatTensor<Self>) -> ElementsMut<'_>;

    /// A tensor of these elements, on the device of `like`.
    fn from_buffer<E: CpuReal>(
        elements: Buffer<E>,
        shape: Shape,
        like: &FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// The elements of a tensor.
#[allow(missing_docs, reason = "types by name")]
pub enum Elements<'a> {
    F32(Strided<'a, f32>),
    F64(Strided<'a, f64>),
    F16(Strided<'a, f16>),
    Bf16(Strided<'a, bf16>),
}

/// The elements of a contiguous tensor, to write to.
#[allow(missing_docs, reason = "types by name")]
pub enum ElementsMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
}

/// Elements with their strides.
pub struct Strided<'a, E> {
    /// The elements from the tensor's first one on.
    pub data: &'a [E],
    /// Strides of all axes except the last, which is contiguous.
    pub strides: Vec<usize>,
}

/// A type that the kernels compute in.
pub trait CpuReal: LayerReal + Element {
    /// The corresponding element type of Burn.
    const DTYPE: DType;

    /// The elements, if they have this type.
    fn of<'a, 'b>(elements: &'b Elements<'a>) -> Option<&'b Strided<'a, Self>>;

    /// The elements, if they have this type.
    fn of_mut(elements: ElementsMut<'_>) -> Option<&mut [Self]>;
}

impl CpuReal for f32 {
    const DTYPE: DType = DType::F32;

    fn of<'a, 'b>(elements: &'b Elements<'a>) -> Option<&'b Strided<'a, Self>> {
        match elements {
            Elements::F32(elements) => Some(elements),
            _ => None,
        }
    }

    fn of_mut(elements: ElementsMut<'_>) -> Option<&mut [Self]> {
        match elements {
            ElementsMut::F32(elements) => Some(elements),
            _ => None,
        }
    }
}

impl CpuReal for f64 {
    const DTYPE: DType = DType::F64;

    fn of<'a, 'b>(elements: &'b Elements<'a>) -> Option<&'b Strided<'a, Self>> {
        match elements {
            Elements::F64(elements) => Some(elements),
            _ => None,
        }
    }

    fn of_mut(elements: ElementsMut<'_>) -> Option<&mut [Self]> {
        match elements {
            ElementsMut::F64(elements) => Some(elements),
            _ => None,
        }
    }
}

/// Runs `$body` with the type alias `$E` for the type in which the dtype is computed: `f32` for half precision.
#[macro_export]
#[doc(hidden)]
macro_rules! with_real {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            burn::tensor::DType::F64 => {
                type $E = f64;
                $body
            }
            _ => {
                type $E = f32;
                $body
            }
        }
    };
}

pub use crate::with_real;

/// [`with_real!`] for kernels that are compiled only for types chosen by features: `$body` is not compiled for `f64`
/// without the feature `f64` of the calling crate.
#[macro_export]
#[doc(hidden)]
macro_rules! with_compiled {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            #[cfg(feature = "f64")]
            burn::tensor::DType::F64 => {
                type $E = f64;
                $body
            }
            #[cfg(not(feature = "f64"))]
            burn::tensor::DType::F64 => {
                panic!("a type that kernels are compiled for expected, got F64 without the feature `f64`")
            }
            _ => {
                type $E = f32;
                $body
            }
        }
    };
}

pub use crate::with_compiled;

/// Inputs whose tensors the kernels can read.
pub fn readable<B, I, const N: usize>(inputs: I) -> I::On<B>
where
    B: CpuBackend,
    I: TrackedInputs<B, N>,
{
    inputs.map::<B>(&mut |tensor: Option<FloatTensor<B>>, tracked: bool| {
        let tensor = tensor?;
        let is_half = matches!(tensor.dtype(), DType::F16 | DType::BF16);
        Some(if tracked && tensor.rank() > 1 {
            B::readable(tensor)
        } else if tracked && is_half {
            // Kernels take vectors in the type in which they compute.
            B::contiguous(B::float_cast(tensor, FloatDType::F32))
        } else {
            B::contiguous(tensor)
        })
    })
}

/// A readable tensor of two axes.
pub fn matrix<B: CpuBackend, E: CpuReal>(tensor: &FloatTensor<B>) -> Matrix<'_, E> {
    let whole = B::elements(tensor);
    let elements = strided::<B, E>(&whole, tensor);
    Matrix::strided(elements.data, tensor.shape().dims(), elements.strides[0])
}

/// The elements of a contiguous tensor.
pub fn elements<B: CpuBackend, E: CpuReal>(tensor: &FloatTensor<B>) -> &[E] {
    &strided::<B, E>(&B::elements(tensor), tensor).data[..tensor.shape().num_elements()]
}

/// The elements of a contiguous tensor, to write to; copied first if another tensor shares them.
pub fn elements_mut<B: CpuBackend, E: CpuReal>(tensor: &mut FloatTensor<B>) -> &mut [E] {
    let dtype = tensor.dtype();
    E::of_mut(B::elements_mut(tensor))
        .unwrap_or_else(|| panic!("expected a tensor of {:?}, got {dtype:?}", E::DTYPE))
}

/// The elements of an integer tensor of indices.
pub fn indices<B: Backend>(tensor: IntTensor<B>) -> Vec<usize> {
    let data = try_read_sync(B::int_into_data(tensor))
        .expect("a tensor in memory is read at once")
        .expect("a tensor in memory can be read");
    let index = |index: i64| {
        usize::try_from(index).unwrap_or_else(|_| panic!("expected indices from 0 on, got {index}"))
    };
    data.iter::<i64>().map(index).collect()
}

/// The elements, in the type in which the kernels compute.
///
/// # Panics
/// If they have another type.
pub fn strided<'a, 'b, B: CpuBackend, E: CpuReal>(
    elements: &'b Elements<'a>,
    tensor: &FloatTensor<B>,
) -> &'b Strided<'a, E> {
    let dtype = tensor.dtype();
    E::of(elements).unwrap_or_else(|| panic!("expected a tensor of {:?}, got {dtype:?}", E::DTYPE))
}

/// A tensor on the device of `like`, rounded to `dtype` if it was computed in a wider type.
pub fn tensor<B: CpuBackend, E: CpuReal>(
    elements: Buffer<E>,
    shape: impl Into<Shape>,
    dtype: DType,
    like: &FloatTensor<B>,
) -> FloatTensor<B> {
    cast::<B>(B::from_buffer(elements, shape.into(), like), dtype)
}

/// The gradient of `input`, in `dtype`.
pub fn whole<B: CpuBackend, E: CpuReal>(
    gradient: Buffer<E>,
    dtype: DType,
    input: &FloatTensor<B>,
) -> Gradient<B> {
    Gradient::Whole(tensor::<B, E>(gradient, input.shape(), dtype, input))
}

/// Elements for a kernel to add to.
pub fn zeros<E: CpuReal>(shape: &Shape) -> Buffer<E> {
    Buffer::zeroed(shape.num_elements())
}

/// Elements for a kernel to write, without exception.
pub fn unwritten<E: CpuReal>(shape: &Shape) -> Buffer<E> {
    Buffer::for_overwrite(shape.num_elements())
}
