//! Sparsemax: the projection of scores onto the simplex.
//!
//! `tau` is the root of `f(t) = sum_j max(z_j - t, 0) - 1`, which is convex, decreasing, and linear between scores.
//! Newton's steps from the left never pass the root, and a step is simple: the mean of the scores above `t`, less `1 /
//! count`. With `g = -f'`, the count of scores above `t`, convexity gives `f_next / f + g_next / g <= 1`, hence `f_next
//! g_next <= f g / 4`: the number of steps is bounded in advance, and nothing is read back to test convergence. Sorting
//! would also need a cumulative sum, and most GPU backends of Burn sort on the host.

use burn::tensor::{Bool, DType, Tensor};
use burn_fused_layers::harness::wide::widened;

use super::lower_masked;
use crate::functional::fill_masked;
use crate::mask::Mask;

/// `max(score - tau, 0)` over the unmasked keys; 0 elsewhere.
pub(super) fn weights(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    if scores.dims().contains(&0) {
        return fill_masked(scores, mask, 0.0);
    }
    let dtype = scores.dtype();
    let (scores, masked) = lower_masked(widened(scores), mask);
    // The largest score is 0 now, so `tau` lies in [-1, 0), and large scores lose no precision.
    let largest = scores.clone().detach().max_dim(3);
    let shifted = (scores - largest).mask_fill(masked.clone(), BELOW);
    let support = Support::find(shifted.clone().detach());
    // The support is a constant; the dependence of the threshold on its scores is not.
    let threshold = support.threshold(shifted.clone());
    above(shifted, threshold).mask_fill(masked, 0.0).cast(dtype)
}

/// Replaces masked scores after the shift: lower than any threshold.
const BELOW: f64 = -2.0;

/// The scores that get a weight.
struct Support {
    /// True for scores without a weight.
    outside: Tensor<4, Bool>,
    /// The number of scores with a weight, at least 1, `[batch, heads, queries, 1]`.
    count: Tensor<4>,
}

impl Support {
    /// The support of rows whose largest element is 0; `shifted` is detached.
    fn find(shifted: Tensor<4>) -> Self {
        let ones = shifted.ones_like();
        let mut support = Self::of(shifted.clone().lower_equal_elem(-1.0), &ones);
        for _ in 0..steps(shifted.dims()[3], shifted.dtype()) {
            let threshold = support.threshold(shifted.clone()).expand(shifted.dims());
            support = Self::of(shifted.clone().lower_equal(threshold), &ones);
        }
        support
    }

    fn of(outside: Tensor<4, Bool>, ones: &Tensor<4>) -> Self {
        let count = ones.clone().mask_fill(outside.clone(), 0.0).sum_dim(3);
        // A query that attends to no key has an empty support.
        let count = count.clamp_min(1.0);
        Self { outside, count }
    }

    /// `tau` for this support: `(sum of its scores - 1) / count`, `[batch, heads, queries, 1]`.
    fn threshold(&self, shifted: Tensor<4>) -> Tensor<4> {
        let sum = shifted.mask_fill(self.outside.clone(), 0.0).sum_dim(3);
        (sum - 1.0) / self.count.clone()
    }
}

/// `max(shifted - threshold, 0)`. NaN compares false, and stays.
fn above(shifted: Tensor<4>, threshold: Tensor<4>) -> Tensor<4> {
    let distance = shifted - threshold;
    let outside = distance.clone().detach().lower_equal_elem(0.0);
    distance.mask_fill(outside, 0.0)
}

/// The number of steps that find the support: each but the last drops a score, and `f g`, at first at most `keys^2`,
/// falls by a factor of 4 until `f` is below the rounding of 1.
fn steps(num_keys: usize, dtype: DType) -> usize {
    let rounding_bits = match dtype {
        DType::F64 => f64::MANTISSA_DIGITS,
        _ => f32::MANTISSA_DIGITS,
    };
    let halvings = num_keys.next_power_of_two().ilog2() + rounding_bits.div_ceil(2);
    (num_keys - 1).min(halvings as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_need_as_many_steps_and_many_keys_their_logarithm() {
        for dtype in [DType::F32, DType::F64] {
            assert_eq!([1, 2, 7].map(|keys| steps(keys, dtype)), [0, 1, 6]);
        }
        assert_eq!(steps(1000, DType::F32), 10 + 12);
        assert_eq!(steps(1000, DType::F64), 10 + 27);
    }
}
