//! The logistic function, in the type of its input.

use burn::tensor::{DType, Tensor, activation};

/// `1 / (1 + exp(-x))`. Burn's own computes f64 in f32 on some backends (0.22.1), and panics on GPUs for empty tensors.
pub fn sigmoid<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.dims().contains(&0) {
        return tensor;
    }
    match tensor.dtype() {
        DType::F64 => {
            // Where `exp(-x)` overflows, its gradient would be 0 times infinity. The fill replaces it.
            let overflows = tensor.clone().lower_elem(-709.0);
            let negative = tensor.mask_fill(overflows, f64::NEG_INFINITY).neg();
            (negative.exp() + 1.0).recip()
        }
        _ => activation::sigmoid(tensor),
    }
}
