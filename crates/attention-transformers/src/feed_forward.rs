//! Position-wise feed-forward networks.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::harness::wide::{wide, widened};
use burn_fused_layers::{
    Activation as Function, PackedLinear, activate, activate_gated, activate_gated_linear,
    activate_linear, drop_elements, dropout, drops, linear,
};

/// The function between the two layers of a [`FeedForward`]. Gated functions multiply the activation of one layer by
/// another layer: Shazeer 2020, "GLU Variants Improve Transformer", section 2.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum FeedForwardActivation {
    /// `max(0, x)`.
    Relu,
    /// `x Phi(x)`, with the distribution function of the normal distribution: Hendrycks & Gimpel 2016, "Gaussian Error
    /// Linear Units", section 2.
    Gelu,
    /// GELU, approximated by `tanh`: PyTorch's `approximate="tanh"`, Hugging Face's `gelu_new` and `gelu_pytorch_tanh`.
    GeluTanh,
    /// `x sigmoid(x)`.
    Silu,
    /// ReLU, gated.
    ReGlu,
    /// GELU, gated.
    GeGlu,
    /// The approximation of GELU by `tanh`, gated, as in Gemma and T5 1.1.
    GeGluTanh,
    /// SiLU, gated, as in Llama.
    SwiGlu,
}

impl FeedForwardActivation {
    /// Whether its result is multiplied by another layer.
    pub fn is_gated(self) -> bool {
        match self {
            Self::Relu | Self::Gelu | Self::GeluTanh | Self::Silu => false,
            Self::ReGlu | Self::GeGlu | Self::GeGluTanh | Self::SwiGlu => true,
        }
    }

    /// The activation function itself.
    pub(crate) fn function(self) -> Function {
        match self {
            Self::Relu | Self::ReGlu => Function::Relu,
            Self::Gelu | Self::GeGlu => Function::Gelu,
            Self::GeluTanh | Self::GeGluTanh => Function::GeluTanh,
            Self::Silu | Self::SwiGlu => Function::Silu,
        }
    }
}

/// Configuration of [`FeedForward`].
#[derive(Config, Debug)]
pub struct FeedForwardConfig {
    /// The size of a row.
    pub size: usize,
    /// The number of hidden units.
    pub hidden_size: usize,
    /// The activation of the hidden units.
    #[config(default = "FeedForwardActivation::Relu")]
    pub activation: FeedForwardActivation,
    /// Whether the linear layers have a bias.
    #[config(default = true)]
    pub bias: bool,
    /// The probability to drop a hidden unit while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl FeedForwardConfig {
    /// A network with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0, or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> FeedForward {
        let (size, hidden) = (self.size, self.hidden_size);
        let sizes = [("size", size), ("hidden_size", hidden)];
        assert_positive("FeedForwardConfig", &sizes);
        let linear = |from, to| {
            let config = LinearConfig::new(from, to).with_bias(self.bias);
            config.init(device)
        };
        FeedForward {
            gate: self.activation.is_gated().then(|| linear(size, hidden)),
            input: linear(size, hidden),
            output: linear(hidden, size),
            dropout: DropoutConfig::new(self.dropout).init(),
            activation: self.activation,
            packed: Vec::new(),
        }
    }
}

/// Two linear layers with an activation between them, applied to each row: `W_2 f(W_1 x + b_1) + b_2`; gated, `W_2
/// (f(W_g x + b_g) * (W_1 x + b_1)) + b_2`.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.3. D2L's `PositionWiseFFN`.
///
/// ```
/// use attention_transformers::layer::FeedForwardConfig;
/// use attention_transformers::FeedForwardActivation;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let config = FeedForwardConfig::new(4, 11).with_activation(FeedForwardActivation::SwiGlu).with_bias(false);
/// let rows = config.init(&device).forward(Tensor::<3>::ones([2, 3, 4], &device));
/// assert_eq!(rows.dims(), [2, 3, 4]);
/// ```
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `W_g`, `[size, hidden_size]`, if the activation is gated. Llama's `gate_proj`.
    pub gate: Option<Linear>,
    /// `W_1`, `[size, hidden_size]`. Llama's `up_proj`.
    pub input: Linear,
    /// `W_2`, `[hidden_size, size]`. Llama's `down_proj`. It may be f32 in a network of half precision, as in T5, and
    /// then the result is f32.
    pub output: Linear,
    /// Dropout on the hidden units, active while training.
    pub dropout: Dropout,
    #[module(skip)]
    activation: FeedForwardActivation,
    /// The layers in the order of the fields, after [`pack`](Self::pack).
    #[module(skip)]
    packed: Vec<PackedLinear>,
}

impl FeedForward {
    /// Packs the weights once for all later calls, like [`MultiHeadAttention::pack`].
    ///
    /// [`MultiHeadAttention::pack`]: attention_core::MultiHeadAttention::pack
    pub fn pack(&mut self) {
        let layers = self.gate.iter().chain([&self.input, &self.output]);
        self.packed = layers.map(PackedLinear::from).collect();
    }

    /// The result of each row.
    ///
    /// # Shapes
    /// - rows and result `[.., size]`
    ///
    /// # Panics
    /// If size, type or device of the rows differ from the parameters'.
    pub fn forward<const D: usize>(&self, rows: Tensor<D>) -> Tensor<D> {
        if rows.dims()[..D - 1].contains(&0) {
            return rows;
        }
        let apply = |layer: &Linear, rows: Tensor<D>| {
            let (weight, bias) = of_linear(layer);
            linear(rows, weight, bias)
        };
        let function = self.activation.function();
        if let [gate @ .., input, output] = self.packed.as_slice() {
            let input = input.forward(rows.clone());
            let hidden = match gate.first() {
                Some(gate) => activate_gated(gate.forward(rows), input, function),
                None => activate(input, function),
            };
            return output.forward(dropout(&self.dropout, hidden));
        }
        let input = apply(&self.input, rows.clone());
        let gate = self.gate.as_ref().map(|gate| apply(gate, rows));
        activated_output(&self.output, &self.dropout, gate, input, function)
    }
}

/// The output layer of `f(input)`, or of `f(gate) * input`, after dropout; in f32 if the layer is, even for input in
/// half precision. If dropout drops nothing, the CPU does not keep the activated elements for the backward pass.
pub(crate) fn activated_output<const D: usize>(
    output: &Linear,
    dropout: &Dropout,
    gate: Option<Tensor<D>>,
    input: Tensor<D>,
    function: Function,
) -> Tensor<D> {
    let (weight, bias) = of_linear(output);
    let (mut gate, mut input) = (gate, input);
    if weight.dtype() == wide(input.dtype()) {
        (gate, input) = (gate.map(widened), widened(input));
    }
    let devices = [
        gate.as_ref().map(Tensor::device),
        bias.as_ref().map(Tensor::device),
        Some(input.device()),
        Some(weight.device()),
    ];
    if drops(dropout, devices.into_iter().flatten()) {
        let hidden = match gate {
            Some(gate) => activate_gated(gate, input, function),
            None => activate(input, function),
        };
        return linear(drop_elements(hidden, dropout.prob), weight, bias);
    }
    match gate {
        Some(gate) => activate_gated_linear(gate, input, function, weight, bias),
        None => activate_linear(input, function, weight, bias),
    }
}
