//! Cosine score.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::wide::widened;

use super::norms::{safe_inverse_sqrt, squared_norms};
use super::{ScoreKernel, ScoringFunction};
use crate::position::Positions;

/// Configuration of [`CosineScore`].
#[derive(Config, Debug)]
pub struct CosineScoreConfig {
    /// The factor on the cosine; its initial value if it is learned.
    ///
    /// The default, 10, is where Swin Transformer V2 starts. A cosine is between -1 and 1: with a factor of 1, weights
    /// differ at most by a factor of `e^2`, close to a mean of all values; with 10, by a factor of `e^20`.
    #[config(default = 10.0)]
    pub temperature: f64,
    /// Whether the factor is a parameter.
    #[config(default = true)]
    pub learned: bool,
}

impl CosineScoreConfig {
    /// The score, with its parameter (if it is learned) on `device`.
    ///
    /// # Panics
    /// If `temperature` is negative or not finite.
    pub fn init(&self, device: &Device) -> CosineScore {
        let temperature = self.temperature;
        assert!(
            temperature.is_finite() && temperature >= 0.0,
            "CosineScoreConfig: temperature expected a finite number of at least 0, got {temperature}"
        );
        let parameter = || Initializer::Constant { value: temperature }.init([1], device);
        CosineScore {
            temperature: self.learned.then(parameter),
            fixed: temperature,
        }
    }
}

/// `a(q, k) = temperature * q . k / (|q| |k|)`, for queries and keys of one size: their norms do not matter.
///
/// The score with a zero vector is 0, and gives it no gradient. A vector counts as zero if the square of its norm is
/// below the smallest normal number (a norm of about `1e-19` in f32).
///
/// Graves et al. 2014, "Neural Turing Machines", section 3.3.1, where the factor is a "key strength"; learned in Henry
/// et al. 2020, "Query-Key Normalization for Transformers", section 3, and, as a divisor, in Liu et al. 2022, "Swin
/// Transformer V2", section 3.3.
///
/// PyTorch equivalent: `temperature * torch.nn.functional.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1)`.
#[derive(Module, Debug)]
pub struct CosineScore {
    /// The factor, `[1]`, if it is learned. Training may make it negative.
    pub temperature: Option<Param<Tensor<1>>>,
    /// The factor, if it is not learned.
    fixed: f64,
}

impl ScoringFunction for CosineScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        let dtype = queries.dtype();
        let temperature = self.temperature.as_ref().map(value);
        if let Some(temperature) = &temperature {
            let first = Argument::floats("queries", &queries);
            let others = [Argument::floats("temperature", temperature)];
            assert_together("CosineScore", first, others);
        }
        let (queries, inverse) = with_inverse_norms(queries);
        // The temperature multiplies the smaller tensor, which has one element per query.
        let factor = match temperature {
            Some(temperature) => {
                let temperature = temperature.reshape([1, 1, 1, 1]);
                inverse.clone() * temperature.cast(inverse.dtype())
            }
            None => inverse,
        };
        (queries * factor).cast(dtype)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        let dtype = keys.dtype();
        let (keys, inverse) = with_inverse_norms(keys);
        (keys * inverse).cast(dtype)
    }

    fn kernel(&self) -> ScoreKernel {
        let fixed = match self.temperature {
            Some(_) => 1.0,
            None => self.fixed,
        };
        ScoreKernel::Dot { scale: Some(fixed) }
    }
}

/// The rows, and `1 / |row|`, `[batch, heads, rows, 1]`, 0 for a zero row; for half precision in f32.
fn with_inverse_norms(rows: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let rows = widened(rows);
    let inverse = safe_inverse_sqrt(squared_norms(rows.clone()));
    (rows, inverse)
}
