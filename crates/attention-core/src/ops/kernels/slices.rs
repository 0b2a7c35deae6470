//! From tensors to slices and back.

use std::borrow::Cow;

use attention_kernels::{Half, Rows};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape, TensorData, bf16, f16};

use crate::ops::host::{HostBackend, HostNumber, HostReal, HostSlice};

/// What a backend in this process reads is there at once.
pub(super) fn synchronously<E: std::fmt::Debug>(data: Option<Result<TensorData, E>>) -> TensorData {
    data.expect("a tensor in memory can be read")
        .expect("a tensor in memory can be read")
}

/// Runs `$body` with the type alias `$E` for what tensors of the dtype are computed in: half precision in `f32`.
macro_rules! with_real {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
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

pub(super) use with_real;

/// Rounds to the type of the inputs, if results were computed in a wider one.
pub(super) fn narrowed<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match tensor.dtype() == dtype {
        true => tensor,
        false => B::float_cast(tensor, dtype.into()),
    }
}

/// A tensor as the kernels see it. Half precision stays as it is: they widen what they read.
pub(super) struct View<'a, E: HostReal> {
    numbers: Numbers<'a, E>,
    shape: Shape,
}

enum Numbers<'a, E: HostReal> {
    Whole(HostSlice<'a, E>),
    F16(HostSlice<'a, f16>),
    Bf16(HostSlice<'a, bf16>),
}

/// A tensor in `E` or in half precision.
pub(super) fn view<B: HostBackend, E: HostReal>(tensor: &FloatTensor<B>) -> View<'_, E> {
    fn read<B: HostBackend, N: HostNumber>(tensor: &FloatTensor<B>) -> HostSlice<'_, N> {
        B::read(tensor).expect("asked only of backends with kernels")
    }
    View {
        numbers: match tensor.dtype() {
            DType::F16 => Numbers::F16(read::<B, f16>(tensor)),
            DType::BF16 => Numbers::Bf16(read::<B, bf16>(tensor)),
            _ => Numbers::Whole(read::<B, E>(tensor)),
        },
        shape: tensor.shape(),
    }
}

impl<'a, E: HostReal> View<'a, E> {
    /// A tensor of four axes.
    pub(super) fn rows(&self) -> Rows<'_, E> {
        fn strides<N: Clone>(slice: &HostSlice<N>) -> [usize; 3] {
            [slice.strides[0], slice.strides[1], slice.strides[2]]
        }
        let shape = self.shape.dims();
        match &self.numbers {
            Numbers::Whole(slice) => Rows::strided(&slice.data, shape, strides(slice)),
            Numbers::F16(slice) => Rows::half(Half::F16(&slice.data), shape, strides(slice)),
            Numbers::Bf16(slice) => Rows::half(Half::Bf16(&slice.data), shape, strides(slice)),
        }
    }

    /// The numbers one after the other, a copy unless they lie so.
    pub(super) fn numbers(self) -> Cow<'a, [E]> {
        match self.numbers {
            Numbers::Whole(slice) => in_order(slice, &self.shape),
            Numbers::F16(slice) => widened(&in_order(slice, &self.shape)),
            Numbers::Bf16(slice) => widened(&in_order(slice, &self.shape)),
        }
    }
}

fn widened<'a, N: HostNumber, E: HostReal>(numbers: &[N]) -> Cow<'a, [E]> {
    let widen = |number: &N| E::from_f64(number.to_f64());
    numbers.iter().map(widen).collect::<Vec<_>>().into()
}

fn in_order<'a, N: HostNumber>(slice: HostSlice<'a, N>, shape: &Shape) -> Cow<'a, [N]> {
    let (len, rank) = (shape.num_elements(), shape.num_dims());
    let is_contiguous = (1..rank).all(|axis| {
        let inner: usize = (axis..rank).map(|axis| shape[axis]).product();
        slice.strides[axis - 1] == inner || shape[axis - 1] == 1
    });
    if is_contiguous || len == 0 {
        return match slice.data {
            Cow::Borrowed(data) => Cow::Borrowed(&data[..len]),
            Cow::Owned(mut data) => {
                data.truncate(len);
                Cow::Owned(data)
            }
        };
    }
    let size = shape[rank - 1];
    let mut numbers = Vec::with_capacity(len);
    for row in 0..len / size {
        // The place of the row along each axis, from the last to the first.
        let (mut rest, mut start) = (row, 0);
        for axis in (0..rank - 1).rev() {
            start += rest % shape[axis] * slice.strides[axis];
            rest /= shape[axis];
        }
        numbers.extend_from_slice(&slice.data[start..start + size]);
    }
    numbers.into()
}

pub(super) fn tensor<B: Backend, E: HostReal>(
    numbers: Vec<E>,
    shape: impl Into<Shape>,
    like: &FloatTensor<B>,
) -> FloatTensor<B> {
    B::float_from_data(TensorData::new(numbers, shape.into()), &like.device())
}

pub(super) fn zeros<E: HostReal>(shape: &Shape) -> Vec<E> {
    vec![E::ZERO; shape.num_elements()]
}
