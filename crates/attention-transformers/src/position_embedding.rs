//! Rows that encode positions.

use attention_core::position::Positions;
use burn::config::Config;
use burn::module::Module;
use burn::nn::{Embedding, PositionalEncoding};
use burn::tensor::{Device, Tensor, TensorData};
use burn_fused_layers::harness::parameter::{shape, value};

/// Configuration of [`PositionEmbedding`].
#[derive(Config, Debug, PartialEq, Eq)]
pub enum PositionEmbeddingConfig {
    /// Nothing is added: positions are encoded by the score, or not at all.
    None,
    /// Sines and cosines.
    Sinusoidal {
        /// The number of positions, at most 10,000.
        max_positions: usize,
    },
    /// Sines and cosines computed when needed, so that texts may be of any length; for an odd `size` the last feature
    /// is a sine.
    Unbounded,
    /// A learned row for each position.
    Learned {
        /// The number of positions.
        max_positions: usize,
    },
}

/// The rows that are added to the embeddings of tokens, by position.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has one")]
pub enum PositionEmbedding {
    /// Sines and cosines: `sin(p / 10000^(2 n / size))` in feature `2 n` of position `p`, and the cosine in the next:
    /// Vaswani et al. 2017, "Attention Is All You Need", section 3.5. D2L's `PositionalEncoding`.
    Sinusoidal(PositionalEncoding),
    /// Sines and cosines, computed in `f64` for each call.
    Unbounded(Sinusoids),
    /// A learned row for each position: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section
    /// 3.1. BERT and GPT-2 have such rows.
    Learned(Embedding),
}

impl PositionEmbedding {
    /// The number of positions, if limited.
    pub(crate) fn num_rows(&self) -> Option<usize> {
        match self {
            Self::Sinusoidal(encoding) => Some(encoding.sinusoids.dims()[1]),
            Self::Learned(embedding) => Some(shape(&embedding.weight)[0]),
            Self::Unbounded(_) => None,
        }
    }

    /// The rows of positions, `[batch or 1, rows, size]`.
    pub(crate) fn rows(
        &self,
        positions: &Positions,
        shape: [usize; 2],
        device: &Device,
    ) -> Tensor<3> {
        match self {
            Self::Sinusoidal(encoding) => {
                let [_, max_positions, size] = encoding.sinusoids.dims();
                let table = encoding.sinusoids.clone().reshape([max_positions, size]);
                positions.select(&table, shape)
            }
            Self::Unbounded(sinusoids) => sinusoids.rows(positions, shape, device),
            Self::Learned(embedding) => positions.select(&value(&embedding.weight), shape),
        }
    }
}

/// Sines and cosines of [`PositionEmbeddingConfig::Unbounded`].
#[derive(Module, Debug)]
pub struct Sinusoids {
    pub(crate) size: usize,
}

impl Sinusoids {
    fn rows(&self, positions: &Positions, shape: [usize; 2], device: &Device) -> Tensor<3> {
        let [_, num_rows] = shape;
        let (examples, of_rows): (usize, Vec<i64>) = match positions.start() {
            Some(start) => (1, (start..start + num_rows as i64).collect()),
            None => {
                let positions = positions.tensor(shape, device);
                let [examples, _] = positions.dims();
                (examples, positions.into_data().iter::<i64>().collect())
            }
        };
        let rates = (0..self.size).map(|feature| {
            let exponent = (feature - feature % 2) as f64 / self.size as f64;
            10_000_f64.powf(-exponent)
        });
        let rates: Vec<f64> = rates.collect();
        let elements = of_rows.into_iter().flat_map(|position| {
            rates.iter().enumerate().map(move |(feature, rate)| {
                let angle = position as f64 * rate;
                let is_sine = feature.is_multiple_of(2);
                if is_sine { angle.sin() } else { angle.cos() }
            })
        });
        let shape = [examples, num_rows, self.size];
        Tensor::from_data(TensorData::new(elements.collect::<Vec<_>>(), shape), device)
    }
}

/// The number of positions of a model, and the reason why there are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionLimit {
    /// The largest number of tokens of a text.
    pub max_positions: usize,
    /// The reason, which names the kind of positions.
    pub reason: &'static str,
}
