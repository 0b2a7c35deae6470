//! From tensors to slices and back.

use std::borrow::Cow;

use attention_kernels::Rows;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, FloatDType, Shape, TensorData};

use crate::ops::host::{HostBackend, HostReal, HostSlice};

/// What a backend in this process reads is there at once.
pub(super) fn synchronously<E: std::fmt::Debug>(data: Option<Result<TensorData, E>>) -> TensorData {
    data.expect("a tensor in memory can be read")
        .expect("a tensor in memory can be read")
}

/// Runs `$body` with the type alias `$E` for the dtype.
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

/// Half precision as `f32`; other types as they are.
pub(super) fn widened<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => B::float_cast(tensor, FloatDType::F32),
        _ => tensor,
    }
}

/// The inverse of [`widened`].
pub(super) fn narrowed<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match tensor.dtype() == dtype {
        true => tensor,
        false => B::float_cast(tensor, dtype.into()),
    }
}

pub(super) fn read<B: HostBackend, E: HostReal>(tensor: &FloatTensor<B>) -> HostSlice<'_, E> {
    B::read(tensor).expect("asked only of backends with kernels")
}

/// A tensor of four axes as the kernels see it.
pub(super) fn rows<'a, E: HostReal>(slice: &'a HostSlice<E>, shape: &Shape) -> Rows<'a, E> {
    let strides = [slice.strides[0], slice.strides[1], slice.strides[2]];
    Rows::strided(&slice.data, shape.dims(), strides)
}

/// The numbers of a contiguous tensor.
pub(super) fn numbers<'a, E: HostReal>(slice: &'a HostSlice<E>, shape: &Shape) -> Cow<'a, [E]> {
    let rank = shape.num_dims();
    let is_contiguous = (1..rank).all(|axis| {
        let inner: usize = (axis..rank).map(|axis| shape[axis]).product();
        slice.strides[axis - 1] == inner || shape[axis - 1] == 1
    });
    match is_contiguous {
        true => (&slice.data[..shape.num_elements()]).into(),
        false => {
            let rows = rows(slice, shape);
            let [batch, heads, len, _] = rows.shape();
            let mut numbers = Vec::with_capacity(shape.num_elements());
            for row in 0..batch * heads * len {
                let head = row / len;
                numbers.extend_from_slice(rows.row(head / heads, head % heads, row % len));
            }
            numbers.into()
        }
    }
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
