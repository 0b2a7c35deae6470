//! Additive score.

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear_of;

use super::{ScoreKernel, ScoringFunction, assert_sizes};
use crate::parameter::{column, normalized_column};
use crate::position::Positions;

/// Configuration of [`AdditiveScore`].
#[derive(Config, Debug)]
pub struct AdditiveScoreConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which queries and keys are compared.
    pub num_hiddens: usize,
    /// Whether the hidden units have a bias b, initially 0.
    #[config(default = false)]
    pub bias: bool,
    /// Whether w_v has a learned length g, at first `1 / sqrt(num_hiddens)`; the hidden units then have a bias.
    #[config(default = false)]
    pub normalize: bool,
}

impl AdditiveScoreConfig {
    /// A score with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> AdditiveScore {
        let sizes = [self.query_size, self.key_size, self.num_hiddens];
        assert_sizes("AdditiveScoreConfig", sizes);
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        let has_bias = self.bias || self.normalize;
        let length = 1.0 / (self.num_hiddens as f64).sqrt();
        let gain = Initializer::Constant { value: length };
        AdditiveScore {
            query: Linear {
                bias: has_bias.then(|| Initializer::Zeros.init([self.num_hiddens], device)),
                ..linear(self.query_size, self.num_hiddens)
            },
            key: linear(self.key_size, self.num_hiddens),
            value: linear(self.num_hiddens, 1),
            gain: self.normalize.then(|| gain.init([1], device)),
        }
    }
}

/// `a(q, k) = w_v . tanh(W_q q + W_k k)`, for queries and keys of any two sizes.
///
/// Equal to a perceptron with one hidden layer on `[q; k]`, without concatenating;
/// [`ConcatScore`](crate::score::ConcatScore) has the parameters of that form.
///
/// With a bias the hidden units are `tanh(W_q q + W_k k + b)`. [`normalize`](AdditiveScoreConfig::normalize) makes
/// their weights `g w_v / |w_v|`, learning length and direction apart (Salimans & Kingma 2016, "Weight Normalization").
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", appendix A.1.2. With
/// `normalize` it is `BahdanauAttention(normalize=True)` of TensorFlow Addons.
#[derive(Module, Debug)]
pub struct AdditiveScore {
    /// W_q, `[query_size, num_hiddens]`, and the bias b of the hidden units, `[num_hiddens]`, if they have one.
    pub query: Linear,
    /// W_k, `[key_size, num_hiddens]`.
    pub key: Linear,
    /// w_v, `[num_hiddens, 1]`; nonzero if it is normalised.
    pub value: Linear,
    /// g, `[1]`, the length of w_v if it is normalised.
    pub gain: Option<Param<Tensor<1>>>,
}

impl ScoringFunction for AdditiveScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        linear_of("queries", of_linear(&self.query), queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        linear_of("keys", of_linear(&self.key), keys)
    }

    fn kernel(&self) -> ScoreKernel {
        let weight = match &self.gain {
            Some(gain) => normalized_column(&self.value, gain),
            None => column(&self.value),
        };
        ScoreKernel::Additive { weight }
    }
}
