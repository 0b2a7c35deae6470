//! Configuration of rotary position embedding.

use burn::config::Config;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_fused_layers::harness::checks::assert_positive;

use super::scaling::Angles;
use super::tables::Tables;
use super::{Rotary, RotaryScaling};
use crate::ops::RotaryLayout;
use crate::score::ScoringFunction;

const NAME: &str = "RotaryConfig";

/// Configuration of [`Rotary`].
#[derive(Config, Debug)]
pub struct RotaryConfig {
    /// The feature dimension of queries and keys (of one head). Hugging Face's `head_dim`.
    pub size: usize,
    /// The number of positions, `0 .. max_positions`. Tables of angles are only as long as the texts.
    pub max_positions: usize,
    /// The base of the angles. Hugging Face's `rope_theta`.
    #[config(default = 10_000.0)]
    pub theta: f64,
    /// The features that form a pair.
    #[config(default = "RotaryLayout::Interleaved")]
    pub layout: RotaryLayout,
    /// The number of features that are rotated, the first ones of a row; by default all. The others stay as they are.
    /// Hugging Face's `partial_rotary_factor * head_dim`.
    #[config(default = "None")]
    pub rotated_size: Option<usize>,
    /// The change of angles for contexts longer than in training.
    #[config(default = "RotaryScaling::None")]
    pub scaling: RotaryScaling,
    /// Whether rows are rotated after the score has projected (or normalized) them, instead of before.
    #[config(default = false)]
    pub after_projection: bool,
}

impl RotaryConfig {
    /// `score` on rotated rows, with angles in the float type of `device`, at least f32.
    ///
    /// # Panics
    /// If a number is 0, `rotated_size` is odd or larger than `size`, or `theta` or a number of the scaling is out of
    /// range.
    pub fn init_with<S: ScoringFunction>(&self, score: S, device: &Device) -> Rotary<S> {
        assert_positive(NAME, &[("max_positions", self.max_positions)]);
        let dtype = match device.settings().float_dtype.into() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        Rotary {
            score,
            tables: Tables::new(self.angles(), dtype, self.max_positions),
            size: self.size,
            layout: self.layout,
            after_projection: self.after_projection,
        }
    }

    /// The angle of each pair at position 1, scaled, in radians. Hugging Face's `inv_freq`.
    ///
    /// # Panics
    /// As [`init_with`](Self::init_with).
    pub fn frequencies(&self) -> Vec<f64> {
        self.angles().frequencies
    }

    /// The factor on sines and cosines, whose square multiplies the scores: Hugging Face's `attention_scaling`. 1
    /// except for [`RotaryScaling::Yarn`].
    ///
    /// # Panics
    /// As [`init_with`](Self::init_with).
    pub fn attention_factor(&self) -> f64 {
        self.angles().factor
    }

    /// A parameter that makes queries or keys, with its features reordered from the layout `from` to that of this
    /// configuration: scores stay the same if the parameters of both queries and keys are reordered.
    ///
    /// The last axis of the parameter has the features of any number of heads: the weight `[in, heads * size]` of a
    /// linear layer, its bias `[heads * size]`, or the gains `[size]` of a normalization.
    ///
    /// PyTorch equivalent: for a weight `[heads * size, in]`, from interleaved to half-split, `weight.view(heads, size
    /// // 2, 2, -1).transpose(1, 2).reshape(heads * size, -1)`, by which Hugging Face converts Llama.
    ///
    /// ```
    /// use attention_core::MultiHeadAttentionConfig;
    /// use attention_core::position::{RotaryConfig, RotaryLayout};
    /// use burn::prelude::*;
    ///
    /// let device = Device::flex();
    /// let rotary = RotaryConfig::new(4, 64).with_layout(RotaryLayout::HalfSplit);
    /// let mut attention = MultiHeadAttentionConfig::new(12, 3).init(&device);
    /// // Parameters of a model whose pairs are neighbours.
    /// for layer in [&mut attention.query, &mut attention.key] {
    ///     let weight = layer.weight.clone();
    ///     layer.weight = weight.map(|weight| rotary.reordered(weight, RotaryLayout::Interleaved));
    /// }
    /// ```
    ///
    /// # Panics
    /// If the last axis is not a multiple of `size`; and as [`init_with`](Self::init_with).
    pub fn reordered<const D: usize>(&self, parameter: Tensor<D>, from: RotaryLayout) -> Tensor<D> {
        let rotated = self.checked_rotated_size();
        let (dims, size) = (parameter.dims(), self.size);
        let features = dims[D - 1];
        assert!(
            features.is_multiple_of(size),
            "{NAME}: last axis expected a multiple of size {size}, one for each head, got {features} of {dims:?}"
        );
        if from == self.layout {
            return parameter;
        }
        let mut order: Vec<usize> = (0..size).collect();
        for pair in 0..rotated / 2 {
            let [to, from] = [self.layout, from].map(|layout| layout.features(pair, rotated / 2));
            for (to, from) in to.into_iter().zip(from) {
                order[to] = from;
            }
        }
        let of_feature = |feature: usize| (feature / size * size + order[feature % size]) as i64;
        let indices: Vec<i64> = (0..features).map(of_feature).collect();
        let indices = TensorData::new(indices, [features]);
        let indices = Tensor::<1, Int>::from_data(indices, &parameter.device());
        parameter.select(D - 1, indices)
    }

    fn angles(&self) -> Angles {
        let rotated_size = self.checked_rotated_size();
        let theta = self.theta;
        assert!(
            theta.is_finite() && theta > 0.0,
            "{NAME}: theta expected a finite number above 0, got {theta}"
        );
        self.scaling.angles(theta, rotated_size)
    }

    /// # Panics
    /// If `rotated_size` is 0, odd or above `size`.
    fn checked_rotated_size(&self) -> usize {
        let size = self.size;
        let rotated_size = self.rotated_size.unwrap_or(size);
        assert_positive(NAME, &[("size", size), ("rotated_size", rotated_size)]);
        assert!(
            rotated_size.is_multiple_of(2) && rotated_size <= size,
            "{NAME}: rotated_size expected an even number up to size {size}, got {rotated_size}"
        );
        rotated_size
    }
}

impl RotaryLayout {
    /// The two features of the pair `pair`, out of `pairs` pairs.
    fn features(self, pair: usize, pairs: usize) -> [usize; 2] {
        match self {
            Self::Interleaved => [2 * pair, 2 * pair + 1],
            Self::HalfSplit => [pair, pair + pairs],
        }
    }
}
