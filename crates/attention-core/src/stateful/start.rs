//! The weights that a first step takes as the weights of the step before.

use burn::config::Config;
use burn::tensor::Tensor;

use super::step;
use crate::memory::Memory;
use crate::normalizer::Normalizer;

/// The weights that the first step of a [`LocationAttention`](super::LocationAttention) or a
/// [`CoverageAttention`](super::CoverageAttention) takes as the weights of the step before and as the sum of all. The
/// papers do not say, and a wrong first step shifts every later one.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum Start {
    /// Zeros: implementations of Tacotron 2, See et al. 2017.
    Zeros,
    /// `1 / len` on each of the `len` keys that are not masked. The sum after the first step is that step's weights
    /// alone: the decoder of ESPnet's Tacotron 2.
    Uniform,
    /// `1 / len`, which stays in the sum: ESPnet's `AttCov` and `AttCovLoc`.
    UniformInSum,
    /// 1 on the first key that is not masked: forward attention.
    First,
}

impl Start {
    /// The weights before the first step, `[batch, keys]`.
    pub(super) fn weights(self, memory: &Memory) -> Tensor<2> {
        match self {
            Self::Zeros => step::per_key(memory, 0.0),
            Self::Uniform | Self::UniformInSum => {
                let ones = step::per_key(memory, 1.0);
                let [batch, num_keys] = ones.dims();
                let ones = ones.reshape([batch, 1, 1, num_keys]);
                step::flat(Normalizer::SumNormalized.weights(ones, memory.mask()))
            }
            Self::First => step::on_first_key(memory, 0.0),
        }
    }

    /// The sum of all weights after a step with `weights`; before the first step `sum` is the start.
    pub(super) fn sum(self, sum: Tensor<2>, weights: Tensor<2>, is_first: bool) -> Tensor<2> {
        match self {
            Self::Uniform | Self::First if is_first => weights,
            _ => sum + weights,
        }
    }
}
