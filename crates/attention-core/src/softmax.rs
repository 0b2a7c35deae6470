//! Softmax over the keys that a query attends to.

use burn::tensor::Tensor;

use crate::rank::{from_four_axes, to_four_axes};
use crate::{Mask, ops};

/// Softmax over the last axis, restricted to the keys that `mask` leaves.
///
/// A masked weight is exactly 0 and the weights of a row with at least one unmasked key sum to 1. A fully masked
/// row is all 0; so are its gradients. (D2L's `masked_softmax` fills with `-1e6` and would give such a row
/// uniform weights.) A score of `-inf` counts as masked.
///
/// *Dive into Deep Learning*, "Attention Scoring Functions", Masked Softmax Operation.
///
/// # Shapes
/// - scores `[batch, queries, keys]` or `[batch, heads, queries, keys]`
/// - result: the shape of `scores`
///
/// # Panics
/// If the mask does not fit the scores.
///
/// ```
/// use attention_core::{Mask, masked_softmax};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let scores = Tensor::<3>::zeros([2, 2, 4], &device);
/// let lens = Tensor::<1, Int>::from_ints([2, 3], &device);
/// let weights = masked_softmax(scores, &Mask::valid_lens(lens));
/// let weights = weights.try_into_vec_as::<f32>().unwrap();
/// assert_eq!(weights[..4], [0.5, 0.5, 0.0, 0.0]);
/// ```
pub fn masked_softmax<const D: usize>(scores: Tensor<D>, mask: &Mask) -> Tensor<D> {
    from_four_axes(ops::masked_softmax(to_four_axes(scores), mask))
}
