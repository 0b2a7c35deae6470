//! Lengths of the rows of a tensor.

use burn::tensor::{DType, Tensor};
use burn_fused_layers::harness::wide::widened;

/// The smallest normal number of `dtype`. GPUs flush smaller numbers to 0, whose reciprocal overflows.
pub(crate) fn smallest_normal(dtype: DType) -> f64 {
    let info = dtype.finfo();
    info.map_or(f64::from(f32::MIN_POSITIVE), |info| info.min_positive)
}

/// `|row|^2`, `[batch, heads, rows, 1]`; half precision is squared and summed in f32, and the result is f32.
pub(super) fn squared_norms(rows: Tensor<4>) -> Tensor<4> {
    let rows = widened(rows);
    let [batch, heads, num_rows, _] = rows.dims();
    if rows.dims().contains(&0) {
        return Tensor::zeros([batch, heads, num_rows, 1], (&rows.device(), rows.dtype()));
    }
    (rows.clone() * rows).sum_dim(3)
}

/// `sqrt(squared)`, with gradient 0 where `squared` is 0 or subnormal.
pub(super) fn safe_sqrt(squared: Tensor<4>) -> Tensor<4> {
    let zero = squared.clone().lower_elem(smallest_normal(squared.dtype()));
    let root = squared.mask_fill(zero.clone(), 1.0).sqrt();
    root.mask_fill(zero, 0.0)
}

/// `1 / sqrt(squared)`; 0 with gradient 0 where `squared` is 0 or subnormal.
pub(super) fn safe_inverse_sqrt(squared: Tensor<4>) -> Tensor<4> {
    let zero = squared.clone().lower_elem(smallest_normal(squared.dtype()));
    let inverse = squared.mask_fill(zero.clone(), 1.0).sqrt().recip();
    inverse.mask_fill(zero, 0.0)
}
