//! Normalization of rows.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::{layer_norm, rms_norm};

use crate::checks::assert_finite;

/// Configuration of [`Norm`].
#[derive(Config, Debug, PartialEq)]
pub enum NormConfig {
    /// Layer normalization.
    Layer {
        /// Added to the variance of a row.
        epsilon: f64,
        /// Whether a bias is added.
        bias: bool,
    },
    /// Normalization by the root mean square.
    Rms {
        /// Added to the mean square of a row.
        epsilon: f64,
    },
}

impl NormConfig {
    /// Layer normalization with a bias and an epsilon of `1e-5`, PyTorch's defaults.
    pub fn layer() -> Self {
        Self::Layer {
            epsilon: 1e-5,
            bias: true,
        }
    }

    /// Normalization by the root mean square, with an epsilon of `1e-6`.
    pub fn rms() -> Self {
        Self::Rms { epsilon: 1e-6 }
    }

    /// A normalization of rows of `size` features, with gains of 1 and a bias of 0 on `device`.
    ///
    /// # Panics
    /// If `size` is 0, or epsilon is not a positive number.
    pub fn init(&self, size: usize, device: &Device) -> Norm {
        const NAME: &str = "NormConfig";
        assert_positive(NAME, &[("size", size)]);
        let (is_centered, epsilon, has_bias) = match *self {
            Self::Layer { epsilon, bias } => (true, epsilon, bias),
            Self::Rms { epsilon } => (false, epsilon, false),
        };
        assert_finite(NAME, "epsilon", epsilon);
        assert!(
            epsilon > 0.0,
            "{NAME}: epsilon expected above 0, got {epsilon}"
        );
        Norm {
            gamma: Initializer::Ones.init([size], device),
            beta: has_bias.then(|| Initializer::Zeros.init([size], device)),
            epsilon,
            is_centered,
        }
    }
}

/// A normalization of each row by itself, by one pass over it on the CPU.
///
/// - Layer normalization, `gamma (x - mean(x)) / sqrt(var(x) + epsilon) + beta`: Ba et al. 2016, "Layer Normalization",
///   section 3. Burn's `LayerNorm` has the same parameters.
/// - By the root mean square, `gamma x / sqrt(mean(x^2) + epsilon)`: Zhang & Sennrich 2019, "Root Mean Square Layer
///   Normalization", section 4. Burn's `RmsNorm` has the same parameters.
///
/// ```
/// use attention_core::transformer::NormConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let norm = NormConfig::rms().init(2, &device);
/// let rows = norm.forward(Tensor::<3>::from_floats([[[1.0, 7.0]]], &device));
/// // The mean square is 25.
/// let expected = TensorData::from([[[0.2_f32, 1.4]]]);
/// rows.into_data().assert_approx_eq::<f32>(&expected, burn::tensor::Tolerance::default());
/// ```
#[derive(Module, Debug)]
pub struct Norm {
    /// The gains, `[size]`.
    pub gamma: Param<Tensor<1>>,
    /// The bias, `[size]`.
    pub beta: Option<Param<Tensor<1>>>,
    epsilon: f64,
    is_centered: bool,
}

impl Norm {
    /// The normalized rows.
    ///
    /// # Shapes
    /// - rows and result `[.., size]`
    ///
    /// # Panics
    /// If size, type or device of the rows are not those of the gains.
    pub fn forward<const D: usize>(&self, rows: Tensor<D>) -> Tensor<D> {
        let gamma = value(&self.gamma);
        if self.is_centered {
            layer_norm(rows, gamma, self.beta.as_ref().map(value), self.epsilon)
        } else {
            rms_norm(rows, gamma, self.epsilon)
        }
    }
}
