//! What makes weights of scores.

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;

use crate::ops::fill_hidden;
use crate::proportional::proportional;
use crate::{Mask, masked_softmax};

/// What makes attention weights of scores: the second arrow of the pipeline, whatever the scoring function and the mask.
/// Weights of masked pairs are 0, and so are all of a query that sees no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalizer {
    /// `exp(score)`, divided by its sum over the keys. The only one that has kernels.
    #[default]
    Softmax,
    /// `1 / (1 + exp(-score))`, each pair for itself: weights need not sum to 1.
    Sigmoid,
    /// The score, divided by the sum of the visible scores of its query. For scores that are not negative, such as a
    /// [`KernelScore`](crate::KernelScore)'s; a query whose scores are all 0 (or no normal numbers) has weights 0.
    Proportional,
}

impl Normalizer {
    /// The weights.
    ///
    /// # Shapes
    /// - scores and result `[batch, heads, queries, keys]`
    ///
    /// # Panics
    /// If the mask does not fit `scores`.
    pub fn weights(self, scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
        match self {
            Self::Softmax => masked_softmax(scores, mask),
            Self::Sigmoid => {
                let scores = fill_hidden(scores, mask, 0.0);
                fill_hidden(sigmoid(scores), mask, 0.0)
            }
            Self::Proportional => proportional(scores, mask),
        }
    }
}
