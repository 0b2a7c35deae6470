//! Normalizers: from scores to weights.

mod hardmax;
mod sparsemax;
mod sum_normalized;

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use burn::tensor::{Bool, Tensor};
use burn_fused_layers::harness::sigmoid::sigmoid;
use burn_fused_layers::harness::wide::in_wide;

use crate::functional::{fill_masked, masked_softmax};
use crate::mask::Mask;
use crate::ops::lowest;

/// The function from scores to attention weights: the second arrow of the pipeline, for any scoring function and mask.
/// Masked pairs have the weight 0, and so have all pairs of a query that attends to no key.
///
/// A score of `-inf` gets the weight 0. An unmasked NaN reaches its own query (with [`Sigmoid`](Self::Sigmoid) only its
/// own weight) and no other; so does `+inf` where a query's scores are divided or shifted by it: with
/// [`Softmax`](Self::Softmax), [`Sparsemax`](Self::Sparsemax) and [`SumNormalized`](Self::SumNormalized).
///
/// ```
/// use attention_core::{Attention, Mask, Normalizer};
/// use attention_core::score::DotProductScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let score = DotProductScoreConfig::new().with_scale(Some(1.0)).init();
/// let attention = Attention::new(score, 0.0).with_normalizer(Normalizer::Sparsemax);
/// let queries = Tensor::<3>::from_floats([[[1.0]]], &device);
/// let keys = Tensor::<3>::from_floats([[[3.0], [2.5], [0.0]]], &device);
/// let output = attention.forward_with_weights(queries, keys.clone(), keys, &Mask::none());
/// // The last key is far behind: softmax would give it some weight, sparsemax gives it none.
/// assert_eq!(output.weights.try_into_vec_as::<f32>().unwrap(), [0.75, 0.25, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalizer {
    /// `exp(score)`, divided by its sum over the keys. Only softmax has kernels.
    #[default]
    Softmax,
    /// `1 / (1 + exp(-score))`, for each pair by itself: weights need not sum to 1.
    Sigmoid,
    /// The [sigmoid](Self::Sigmoid) of each pair, divided by the sum over the keys. Unlike with softmax, adding a
    /// constant to all scores of a query changes its weights, which are 0 where all sigmoids underflow (f32: scores
    /// below -87).
    ///
    /// Chorowski et al. 2015, "Attention-Based Models for Speech Recognition", section 2.3, "smoothing".
    NormalizedSigmoid,
    /// `max(score - tau, 0)`, where each query has the `tau` for which its weights sum to 1: the nearest point of the
    /// simplex. Keys well below the best one get exactly 0.
    ///
    /// Adding a constant to all scores of a query does not change its weights. No sorting is needed, so a GPU reads
    /// nothing back.
    ///
    /// Martins & Astudillo 2016, "From Softmax to Sparsemax", section 2.
    Sparsemax,
    /// 1 for the key with the largest score, the first of equal ones, and 0 for all others: for inference, to attend to
    /// one key only.
    ///
    /// Its derivative is 0 wherever it exists. In training, values therefore learn through the weights, while scores
    /// (queries, keys, parameters of the score) get no gradient.
    Hardmax,
    /// The score, divided by the sum of the query's unmasked scores. For non-negative scores, such as those of a
    /// [`KernelScore`](crate::score::KernelScore); a query whose scores are all 0 (or subnormal) has weights 0. Scores
    /// below `1.2e-35` (in f64 `2.3e-305`) get no gradient.
    SumNormalized,
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
                let scores = fill_masked(scores, mask, 0.0);
                fill_masked(sigmoid(scores), mask, 0.0)
            }
            Self::NormalizedSigmoid => {
                // In f16 the sigmoids of scores below -17 vanish, however large their parts of the sum are.
                in_wide(scores, |scores| {
                    let gates = Self::Sigmoid.weights(scores, mask);
                    Self::SumNormalized.weights(gates, mask)
                })
            }
            Self::Sparsemax => sparsemax::weights(scores, mask),
            Self::Hardmax => hardmax::weights(scores, mask),
            Self::SumNormalized => sum_normalized::weights(scores, mask),
        }
    }
}

/// The names in settings.
const NAMES: [(&str, Normalizer); 6] = [
    ("softmax", Normalizer::Softmax),
    ("sigmoid", Normalizer::Sigmoid),
    ("normalized_sigmoid", Normalizer::NormalizedSigmoid),
    ("sparsemax", Normalizer::Sparsemax),
    ("hardmax", Normalizer::Hardmax),
    ("sum_normalized", Normalizer::SumNormalized),
];

/// The name that [`FromStr`] reads.
impl fmt::Display for Normalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, normalizer)| normalizer == self);
        f.pad(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Normalizer {
    type Err = UnknownNormalizer;

    fn from_str(name: &str) -> Result<Self, UnknownNormalizer> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map_or(Err(UnknownNormalizer(name.to_owned())), |known| Ok(known.1))
    }
}

/// A text that is not the name of a [`Normalizer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNormalizer(pub String);

impl fmt::Display for UnknownNormalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.map(|(name, _)| name).join(", ");
        write!(f, "one of {names} expected, got {:?}", self.0)
    }
}

impl Error for UnknownNormalizer {}

/// Scores, with the lowest finite number at masked pairs and in place of `-inf`; and flags, true at these places. The
/// scores returned are not in half precision: the lowest number of f32 lies below any score.
fn lower_masked(scores: Tensor<4>, mask: &Mask) -> (Tensor<4>, Tensor<4, Bool>) {
    let lowest = lowest(scores.dtype());
    let scores = fill_masked(scores, mask, f64::NEG_INFINITY);
    let masked = scores.clone().detach().lower_elem(lowest);
    (scores.mask_fill(masked.clone(), lowest), masked)
}
