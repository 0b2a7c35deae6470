//! Gaussian score.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::wide::widened;

use super::norms::squared_norms;
use super::{ScoreKernel, ScoringFunction};
use crate::functional::{dot_product_score, per_head};
use crate::mask::Mask;
use crate::position::Positions;

/// Configuration of [`GaussianScore`].
#[derive(Config, Debug)]
pub struct GaussianScoreConfig {
    /// The standard deviation of the kernel; its initial value if it is learned.
    #[config(default = 1.0)]
    pub width: f64,
    /// Whether `1 / width` is a parameter.
    #[config(default = false)]
    pub learned: bool,
}

impl GaussianScoreConfig {
    /// The score, with its parameter (if it is learned) on `device`.
    ///
    /// # Panics
    /// If `width` is not finite or not above 0.
    pub fn init(&self, device: &Device) -> GaussianScore {
        let width = self.width;
        assert!(
            width.is_finite() && width > 0.0,
            "GaussianScoreConfig: width expected a finite number above 0, got {width}"
        );
        let value = 1.0 / width;
        let parameter = || Initializer::Constant { value }.init([1], device);
        GaussianScore {
            inverse_width: self.learned.then(parameter),
            fixed: value,
        }
    }
}

/// `a(q, k) = -|q - k|^2 / (2 width^2)`, for queries and keys of one size: with softmax, Nadaraya-Watson regression
/// with a Gaussian kernel.
///
/// Computed as `q . k / width^2 - |k|^2 / (2 width^2) - |q|^2 / (2 width^2)` in the dot-product kernel; softmax ignores
/// the last term. Far from the origin the terms are large and cancel: the score is wrong by about the rounding of
/// `(|q|^2 + |k|^2) / width^2`. Centre inputs that are many times farther from the origin than from each other;
/// [`KernelScore`](crate::score::KernelScore) subtracts directly if queries have few components. For half precision the
/// terms are f32.
///
/// Nadaraya 1964, "On Estimating Regression"; Watson 1964, "Smooth Regression Analysis"; as attention in *Dive into
/// Deep Learning*, section 11.2, whose learned kernel, `softmax(-((q - k) w)^2 / 2)`, has `w = 1 / width`.
///
/// PyTorch equivalent: `-((q.unsqueeze(-2) - k.unsqueeze(-3)) / width).square().sum(-1) / 2`.
#[derive(Module, Debug)]
pub struct GaussianScore {
    /// `1 / width`, `[1]`, if it is learned. Its sign does not matter.
    pub inverse_width: Option<Param<Tensor<1>>>,
    /// `1 / width`, if it is not learned.
    fixed: f64,
}

impl GaussianScore {
    /// Multiplies projected queries and keys by a learned width; a fixed width is part of the scale.
    fn by_learned_width(&self, rows: Tensor<4>) -> Tensor<4> {
        match &self.inverse_width {
            Some(inverse_width) => {
                let inverse_width = value(inverse_width);
                let parameter = [Argument::floats("inverse_width", &inverse_width)];
                assert_together("GaussianScore", Argument::floats("rows", &rows), parameter);
                rows * inverse_width.reshape([1, 1, 1, 1])
            }
            None => rows,
        }
    }

    /// The factor on the products of projected queries and keys.
    fn factor(&self) -> f64 {
        match self.inverse_width {
            Some(_) => 1.0,
            None => self.fixed * self.fixed,
        }
    }

    /// `-factor |row|^2 / 2`, `[batch, heads, rows, 1]`; for half precision in f32, where it cancels without overflow.
    fn bias(&self, rows: &Tensor<4>) -> Tensor<4> {
        squared_norms(rows.clone()) * (-0.5 * self.factor())
    }
}

impl ScoringFunction for GaussianScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.by_learned_width(queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.by_learned_width(keys)
    }

    fn projects_keys(&self) -> bool {
        self.inverse_width.is_some()
    }

    fn kernel(&self) -> ScoreKernel {
        let scale = Some(self.factor());
        ScoreKernel::Dot { scale }
    }

    fn key_bias(&self, keys: &Tensor<4>) -> Option<Tensor<4>> {
        Some(self.bias(keys).swap_dims(2, 3))
    }

    fn query_bias(&self, queries: &Tensor<4>) -> Option<Tensor<4>> {
        Some(self.bias(queries))
    }

    // By default, but in f32 for half precision.
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let [_, heads, _, _] = queries.dims();
        let (queries, keys) = (widened(queries), widened(keys));
        let of_keys = per_head(self.bias(&keys).swap_dims(2, 3), heads);
        let of_queries = self.bias(&queries);
        let products = dot_product_score(queries, keys, mask, self.factor());
        products + of_keys + of_queries
    }
}
