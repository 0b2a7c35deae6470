//! Query-key normalization.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor, assert_shape};
use burn_fused_layers::harness::checks::{
    Argument, assert_finite, assert_positive, assert_together,
};
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::wide::widened;

use super::norms::squared_norms;
use super::{ScoreKernel, ScoringFunction};
use crate::position::Positions;

/// Configuration of [`QkNormScore`].
#[derive(Config, Debug)]
pub struct QkNormScoreConfig {
    /// The feature dimension of queries and keys (of one head).
    pub size: usize,
    /// Added to the mean square of a vector, which bounds the gradient of a zero vector to `1 / sqrt(epsilon)` times
    /// the incoming one.
    #[config(default = 1e-6)]
    pub epsilon: f64,
    /// The factor on the dot product; by default `1 / sqrt(size)`.
    #[config(default = "None")]
    pub scale: Option<f64>,
}

impl QkNormScoreConfig {
    /// The score, with gains of 1 on `device`.
    ///
    /// # Panics
    /// If `size` is 0, `epsilon` is not a positive number, or `scale` is not finite.
    pub fn init(&self, device: &Device) -> QkNormScore {
        assert_positive("QkNormScoreConfig", &[("size", self.size)]);
        assert_finite("QkNormScoreConfig", "epsilon", self.epsilon);
        assert!(
            self.epsilon > 0.0,
            "QkNormScoreConfig: epsilon expected above 0, got {}",
            self.epsilon
        );
        if let Some(scale) = self.scale {
            assert_finite("QkNormScoreConfig", "scale", scale);
        }
        let gain = || Initializer::Ones.init([self.size], device);
        QkNormScore {
            query: gain(),
            key: gain(),
            epsilon: self.epsilon,
            scale: self.scale,
        }
    }
}

/// `a(q, k) = norm(q) . norm(k) / sqrt(size)` with `norm(x) = gain * x / sqrt(mean(x^2) + epsilon)`: the scaled dot
/// product of RMS-normalized queries and keys, each with a learned gain per feature.
///
/// Scores stay within `sqrt(size)` times the gains, however large the activations grow, which keeps the softmax of
/// large models from saturating in training.
///
/// A [`Rotary`](crate::position::Rotary) around it rotates vectors before their normalization, or after it with
/// [`RotaryConfig::after_projection`](crate::position::RotaryConfig::after_projection).
///
/// Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters", section 2, with layer normalization;
/// with the root mean square in OLMo 2, Qwen 3 and Gemma 3.
///
/// PyTorch equivalent: `scaled_dot_product_attention(rms_norm(q, [size], query, epsilon), rms_norm(k, [size], key,
/// epsilon), v)` of `torch.nn.functional`.
#[derive(Module, Debug)]
pub struct QkNormScore {
    /// The gain of each feature of a query, `[size]`.
    pub query: Param<Tensor<1>>,
    /// The gain of each feature of a key, `[size]`.
    pub key: Param<Tensor<1>>,
    epsilon: f64,
    scale: Option<f64>,
}

impl QkNormScore {
    /// Used instead of Burn's `RmsNorm` (0.22.1), which squares f64 in f32, too.
    fn normalized(&self, vectors: Tensor<4>, gain: &Param<Tensor<1>>) -> Tensor<4> {
        let dtype = vectors.dtype();
        let gain = value(gain);
        let parameter = [Argument::floats("gain", &gain)];
        assert_together("QkNormScore", Argument::floats("rows", &vectors), parameter);
        let [size] = gain.dims();
        assert_shape!(vectors, [_, _, _, size]);
        let vectors = widened(vectors);
        // Burn rounds the gradient of a division by a number to f32.
        let mean = squared_norms(vectors.clone()) * (1.0 / size as f64);
        let gain = gain.reshape([1, 1, 1, size]).cast(vectors.dtype());
        (vectors / (mean + self.epsilon).sqrt() * gain).cast(dtype)
    }
}

impl ScoringFunction for QkNormScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.normalized(queries, &self.query)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.normalized(keys, &self.key)
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: self.scale }
    }
}
