//! Normalization of rows.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, LayerNormConfig, RmsNorm, RmsNormConfig};
use burn::tensor::{DType, Device, Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_positive, assert_together};
use burn_fused_layers::harness::parameter::value;

use crate::checks::assert_finite;
use crate::score::wide;

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
        let (Self::Layer { epsilon, .. } | Self::Rms { epsilon }) = *self;
        assert_finite(NAME, "epsilon", epsilon);
        assert!(
            epsilon > 0.0,
            "{NAME}: epsilon expected above 0, got {epsilon}"
        );
        match *self {
            Self::Layer { epsilon, bias } => {
                let config = LayerNormConfig::new(size).with_epsilon(epsilon);
                Norm::Layer(config.with_bias(bias).init(device))
            }
            Self::Rms { epsilon } => {
                Norm::Rms(RmsNormConfig::new(size).with_epsilon(epsilon).init(device))
            }
        }
    }
}

/// A normalization of each row by itself.
///
/// Burn's `Normalization` has others, too, which mix rows.
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
pub enum Norm {
    /// `gain (x - mean(x)) / sqrt(var(x) + epsilon) + bias`: Ba et al. 2016, "Layer Normalization", section 3.
    Layer(LayerNorm),
    /// `gain x / sqrt(mean(x^2) + epsilon)`: Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", section 4.
    Rms(RmsNorm),
}

impl Norm {
    /// The normalized rows.
    ///
    /// # Shapes
    /// - rows and result `[.., size]`
    ///
    /// # Panics
    /// If size, type or device of the rows are not those of the gain.
    pub fn forward<const D: usize>(&self, rows: Tensor<D>) -> Tensor<D> {
        let (Self::Layer(LayerNorm { gamma, .. }) | Self::Rms(RmsNorm { gamma, .. })) = self;
        let gain = value(gamma);
        let [size] = gain.dims();
        assert_shape!(rows, [.., size]);
        let parameter = [Argument::floats("gain", &gain)];
        assert_together("Norm", Argument::floats("rows", &rows), parameter);
        if rows.dims().contains(&0) {
            return rows;
        }
        match self {
            Self::Layer(norm) => dequantized(norm).forward(rows),
            Self::Rms(norm) => {
                // Burn's `RmsNorm` (0.22.1) squares in f32, f64 too, and divides by a root in half precision.
                let dtype = rows.dtype();
                let rows = rows.cast(wide(dtype));
                let mean = rows.clone().square().mean_dim(D - 1);
                let gain = gain.cast(rows.dtype()).unsqueeze::<D>();
                (rows / (mean + norm.epsilon).sqrt() * gain).cast(dtype)
            }
        }
    }
}

/// The normalization, with parameters that Burn's own `forward` can read.
fn dequantized(norm: &LayerNorm) -> LayerNorm {
    let mut norm = norm.clone();
    for parameter in [Some(&mut norm.gamma), norm.beta.as_mut()] {
        if let Some(parameter) = parameter.filter(|of| matches!(of.dtype(), DType::QFloat(_))) {
            *parameter = Param::initialized(parameter.id, value(parameter));
        }
    }
    norm
}
