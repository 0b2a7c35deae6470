//! Scores, divided by their sum.

use burn::tensor::Tensor;
use burn_fused_layers::harness::wide::widened;

use super::lower_masked;
use crate::functional::fill_masked;
use crate::mask::Mask;
use crate::score::smallest_normal;

/// Each score, divided by the sum of the scores that its query attends to; 0 where that sum is 0.
///
/// # Shapes
/// - scores and result `[batch, heads, queries, keys]`
pub(super) fn weights(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    if scores.dims().contains(&0) {
        return scores;
    }
    let dtype = scores.dtype();
    let (scores, masked) = lower_masked(widened(scores), mask);
    let scores = scores.mask_fill(masked, 0.0);
    // The gradient of scores that nearly vanish is 0: divided by them, a gradient from above may overflow, and their
    // own derivatives may have underflowed.
    let least = smallest_normal(scores.dtype());
    let constant = scores.clone().detach();
    let magnitude = constant.clone().abs();
    let vanishing = magnitude.lower_elem(least * 1024.0);
    let scores = scores.mask_where(vanishing, constant);
    // Weights do not depend on a factor on a row. Scaling the largest score to 1 keeps the square of the sum, which the
    // gradient has, from vanishing for rows far out on a kernel's tail.
    let largest = scores.clone().detach().max_dim(3);
    let empty = largest.clone().lower_elem(least);
    let scores = scores / largest.mask_fill(empty.clone(), 1.0);
    let sum = scores.clone().sum_dim(3).mask_fill(empty.clone(), 1.0);
    let weights = scores * sum.recip().mask_fill(empty, 0.0);
    // Filled again: a NaN in the gradient of a masked weight must not enter the query's sum.
    fill_masked(weights, mask, 0.0).cast(dtype)
}
