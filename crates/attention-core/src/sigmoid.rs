//! The logistic function, in the type of its input.

use burn::tensor::{DType, Tensor, activation};

/// `1 / (1 + exp(-x))`. Burn's own computes f64 in f32 on some backends (0.22.1), and on GPUs panics without
/// numbers.
pub(crate) fn sigmoid<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.dims().contains(&0) {
        return tensor;
    }
    match tensor.dtype() {
        DType::F64 => (tensor * 0.5).tanh() * 0.5 + 0.5,
        _ => activation::sigmoid(tensor),
    }
}
