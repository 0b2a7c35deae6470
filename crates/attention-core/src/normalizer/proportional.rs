//! Weights in proportion to scores.

use burn::tensor::Tensor;

use super::lower_hidden;
use crate::Mask;
use crate::ops::fill_hidden;
use crate::score::{smallest_normal, widened};

/// Each score, divided by the sum of those that its query sees; 0 where there is nothing to divide.
///
/// # Shapes
/// - scores and result `[batch, heads, queries, keys]`
pub(super) fn weights(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    if scores.dims().contains(&0) {
        return scores;
    }
    let dtype = scores.dtype();
    let (scores, hidden) = lower_hidden(widened(scores), mask);
    let scores = scores.mask_fill(hidden, 0.0);
    // Weights do not depend on a factor on a row. With the largest score made 1, a row far out on a kernel's tail has a
    // sum whose square, in the gradient, does not vanish.
    let largest = scores.clone().detach().max_dim(3);
    let empty = largest.clone().lower_elem(smallest_normal(largest.dtype()));
    let scores = scores / largest.mask_fill(empty.clone(), 1.0);
    let sum = scores.clone().sum_dim(3).mask_fill(empty.clone(), 1.0);
    let weights = scores * sum.recip().mask_fill(empty, 0.0);
    // Once more: a NaN in the gradient of a hidden weight must not enter the row's sum.
    fill_hidden(weights, mask, 0.0).cast(dtype)
}
