//! Hardmax: all weight on one key.

use burn::tensor::{Int, Tensor};
use burn_fused_layers::harness::wide::widened;

use super::lower_masked;
use crate::functional::fill_masked;
use crate::mask::Mask;

/// 1 at the first of the largest unmasked scores, 0 elsewhere; detached from the scores.
pub(super) fn weights(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let shape = scores.dims();
    let [_, _, _, num_keys] = shape;
    if shape.contains(&0) {
        return fill_masked(scores, mask, 0.0).detach();
    }
    let dtype = scores.dtype();
    let (scores, masked) = lower_masked(widened(scores.detach()), mask);
    let largest = scores.clone().max_dim(3).expand(shape);
    // NaN compares false, with itself and as the largest score.
    let at_most = scores.clone().lower_equal(largest.clone());
    let broken = at_most.bool_not().any_dim(3).expand(shape);

    // Backends differ in which of equal scores `argmax` names, so take the smallest position. A masked key is never the
    // largest, even if all scores are the lowest number.
    let below = scores.clone().not_equal(largest).bool_or(masked.clone());
    let device = scores.device();
    let positions = Tensor::<1, Int>::arange(0..num_keys as i64, &device)
        .reshape([1, 1, 1, num_keys])
        .expand(shape);
    let first = positions
        .clone()
        .mask_fill(below, num_keys as i64)
        .min_dim(3)
        .expand(shape);
    let others = positions.not_equal(first);
    scores
        .ones_like()
        .mask_fill(others, 0.0)
        .mask_fill(broken, f64::NAN)
        .mask_fill(masked, 0.0)
        .cast(dtype)
}
