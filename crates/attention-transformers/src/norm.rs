//! Normalization of rows.

use std::fmt::{self, Display, Formatter};

use burn::config::Config;
use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param,
};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::{assert_finite, assert_positive};
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::{layer_norm, rms_norm};

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
        let (epsilon, bias) = (1e-5, true);
        Self::Layer { epsilon, bias }
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

/// A normalization of each row by itself, in a single pass over the row on the CPU.
///
/// - Layer normalization, `gamma (x - mean(x)) / sqrt(var(x) + epsilon) + beta`: Ba et al. 2016, "Layer Normalization",
///   section 3. Burn's `LayerNorm` has the same parameters.
/// - Normalization by the root mean square, `gamma x / sqrt(mean(x^2) + epsilon)`: Zhang & Sennrich 2019, "Root Mean
///   Square Layer Normalization", section 4. Burn's `RmsNorm` has the same parameters.
///
/// Adapters of burn-store, which depend on the type of a layer, treat it as Burn's layer: with `BurnToPyTorchAdapter`
/// its parameters are saved as `weight` and `bias`.
///
/// ```
/// use attention_transformers::layer::NormConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let norm = NormConfig::rms().init(2, &device);
/// let rows = norm.forward(Tensor::<3>::from_floats([[[1.0, 7.0]]], &device));
/// // The mean square is 25.
/// let expected = TensorData::from([[[0.2_f32, 1.4]]]);
/// rows.into_data().assert_approx_eq::<f32>(&expected, burn::tensor::Tolerance::default());
/// ```
#[derive(Clone, Debug)]
pub struct Norm {
    /// The gains, `[size]`.
    pub gamma: Param<Tensor<1>>,
    /// The bias, `[size]`.
    pub beta: Option<Param<Tensor<1>>>,
    epsilon: f64,
    is_centered: bool,
}

impl Norm {
    /// The normalized rows, in the type of the gains.
    ///
    /// # Shapes
    /// - rows and result `[.., size]`
    ///
    /// # Panics
    /// If size, type or device of the rows differ from the gains', which may be half precision for rows in f32.
    pub fn forward<const D: usize>(&self, rows: Tensor<D>) -> Tensor<D> {
        let gamma = value(&self.gamma);
        if self.is_centered {
            layer_norm(rows, gamma, self.beta.as_ref().map(value), self.epsilon)
        } else {
            rms_norm(rows, gamma, self.epsilon)
        }
    }

    /// The type of Burn's layer with the same parameters, as traversals of modules name it.
    fn burns_type(&self) -> &'static str {
        if self.is_centered {
            "Struct:LayerNorm"
        } else {
            "Struct:RmsNorm"
        }
    }

    fn changed(mut self, change: impl FnOnce(Parameters) -> Parameters) -> Self {
        (self.gamma, self.beta) = change((self.gamma, self.beta));
        self
    }
}

/// The rows after a normalization, if there is one.
pub(crate) fn normalized(norm: &Option<Norm>, rows: Tensor<3>) -> Tensor<3> {
    match norm {
        Some(norm) => norm.forward(rows),
        None => rows,
    }
}

/// Gains and bias.
type Parameters = (Param<Tensor<1>>, Option<Param<Tensor<1>>>);

/// As derived, except for the type.
impl Module for Norm {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        let burns_type = self.burns_type();
        visitor.enter_module("gamma", burns_type);
        self.gamma.visit(visitor);
        visitor.exit_module("gamma", burns_type);
        visitor.enter_module("beta", burns_type);
        self.beta.visit(visitor);
        visitor.exit_module("beta", burns_type);
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let burns_type = self.burns_type();
        self.changed(|(gamma, beta)| {
            mapper.enter_module("gamma", burns_type);
            let gamma = Module::map(gamma, mapper);
            mapper.exit_module("gamma", burns_type);
            mapper.enter_module("beta", burns_type);
            let beta = Module::map(beta, mapper);
            mapper.exit_module("beta", burns_type);
            (gamma, beta)
        })
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        self.beta
            .collect_devices(self.gamma.collect_devices(devices))
    }

    fn to_device(self, device: &Device) -> Self {
        self.changed(|parameters| parameters.to_device(device))
    }

    fn fork(self, device: &Device) -> Self {
        self.changed(|parameters| parameters.fork(device))
    }

    fn valid(&self) -> Self {
        self.clone().changed(|parameters| parameters.valid())
    }

    fn train(self) -> Self {
        self.changed(Module::train)
    }

    fn materialize(self) -> Self {
        self.changed(Module::materialize)
    }
}

impl ModuleDisplay for Norm {}

impl ModuleDisplayDefault for Norm {
    fn content(&self, content: Content) -> Option<Content> {
        content
            .set_top_level_type("Norm")
            .add("gamma", &self.gamma)
            .add("beta", &self.beta)
            .add_debug_attribute("epsilon", &self.epsilon)
            .add_debug_attribute("is_centered", &self.is_centered)
            .optional()
    }

    fn num_params(&self) -> usize {
        Module::num_params(self)
    }
}

impl Display for Norm {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.format(Default::default()))
    }
}
