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

/// The function from scores to attention weights: the second arrow of the pipeline, whatever the scoring function and
/// the mask. Weights of masked pairs are 0, and so are all of a query that attends to no key.
///
/// A score of `-inf` gets the weight 0. A NaN that is not masked reaches its own query (with [`Sigmoid`](Self::Sigmoid)
/// its own weight) and no other; so does `+inf` where a query's scores are divided or shifted by it, with
/// [`Softmax`](Self::Softmax),
/// [`Sparsemax`](Self::Sparsemax) and [`SumNormalized`](Self::SumNormalized).
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
    /// `exp(score)`, divided by its sum over the keys. The only one that has kernels.
    #[default]
    Softmax,
    /// `1 / (1 + exp(-score))`, each pair for itself: weights need not sum to 1.
    Sigmoid,
    /// The [sigmoid](Self::Sigmoid) of each pair, divided by the sum over the keys. A constant on all scores of a query
    /// does not cancel, as it does with softmax.
    ///
    /// Chorowski et al. 2015, "Attention-Based Models for Speech Recognition", section 2.3, "smoothing".
    NormalizedSigmoid,
    /// `max(score - tau, 0)`, with the `tau` of each query that makes its weights sum to 1: the nearest point of the
    /// simplex, where keys well below the best one get exactly 0.
    ///
    /// Scores that are a constant apart from each other give the same weights. Needs no sorting, so a GPU does it
    /// without reading anything back.
    ///
    /// Martins & Astudillo 2016, "From Softmax to Sparsemax", section 2.
    Sparsemax,
    /// 1 for the key of the largest score, the first of equal ones, and 0 for all others: for inference, to attend to
    /// one key only.
    ///
    /// Its derivative is 0 wherever there is one. So while training, values learn through the weights, and scores
    /// (queries, keys, parameters of the score) get no gradient.
    Hardmax,
    /// The score, divided by the sum of its query's scores that are not masked. For scores that are not negative, such
    /// as a
    /// [`KernelScore`](crate::score::KernelScore)'s; a query whose scores are all 0 (or no normal numbers) has weights
    /// 0.
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
                // In f16 gates vanish below a score of -17, whatever their shares are.
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

/// The names by which settings call them.
const NAMES: [(&str, Normalizer); 6] = [
    ("softmax", Normalizer::Softmax),
    ("sigmoid", Normalizer::Sigmoid),
    ("normalized_sigmoid", Normalizer::NormalizedSigmoid),
    ("sparsemax", Normalizer::Sparsemax),
    ("hardmax", Normalizer::Hardmax),
    ("sum_normalized", Normalizer::SumNormalized),
];

/// Its name, which [`FromStr`] reads.
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

/// A text where the name of a [`Normalizer`] was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNormalizer(pub String);

impl fmt::Display for UnknownNormalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.map(|(name, _)| name).join(", ");
        write!(f, "one of {names} expected, got {:?}", self.0)
    }
}

impl Error for UnknownNormalizer {}

/// Scores with the lowest finite number at masked pairs and in place of `-inf`; and true at these places. They are not
/// in half precision: the lowest number of f32 lies below any score.
fn lower_masked(scores: Tensor<4>, mask: &Mask) -> (Tensor<4>, Tensor<4, Bool>) {
    let lowest = lowest(scores.dtype());
    let scores = fill_masked(scores, mask, f64::NEG_INFINITY);
    let masked = scores.clone().detach().lower_elem(lowest);
    (scores.mask_fill(masked.clone(), lowest), masked)
}
