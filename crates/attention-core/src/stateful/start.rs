//! The weights that a first step uses as the weights of earlier steps.

use burn::config::Config;
use burn::tensor::Tensor;

use super::step;
use crate::memory::Memory;
use crate::normalizer::Normalizer;

/// The weights that the first step of a [`LocationAttention`](super::LocationAttention) or a
/// [`CoverageAttention`](super::CoverageAttention) uses as the previous step's weights and as the sum of all. The
/// papers do not define them, and a wrong first step shifts every later one.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum Start {
    /// Zeros, as in implementations of Tacotron 2 and See et al. 2017.
    Zeros,
    /// `1 / len` on each of the `len` unmasked keys. After the first step, the sum has the weights of that step alone,
    /// as in the decoder of ESPnet's Tacotron 2.
    Uniform,
    /// `1 / len`, which stays in the sum, as in ESPnet's `AttCov` and `AttCovLoc`.
    UniformInSum,
    /// 1 on the first unmasked key, as in forward attention.
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

    /// The sum of all weights after a step with `weights`; before the first step, `sum` is the start.
    pub(super) fn sum(self, sum: Tensor<2>, weights: Tensor<2>, is_first: bool) -> Tensor<2> {
        match self {
            Self::Uniform | Self::First if is_first => weights,
            _ => sum + weights,
        }
    }
}
