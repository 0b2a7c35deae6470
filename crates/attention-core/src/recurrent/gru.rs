//! Gated recurrent unit.

use burn::config::Config;
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

use super::Steps;
use super::layer::{self, Hidden};
use crate::linear::linear;
use crate::ops::Cell;

/// Configuration of a [`Gru`].
///
/// ```
/// use attention_core::recurrent::GruConfig;
/// use burn::tensor::Device;
///
/// let gru = GruConfig::new(5, 7).init(&Device::flex());
/// assert_eq!(gru.hidden.weight.dims(), [7, 21]); // the gates r, z and n
/// ```
#[derive(Config, Debug)]
pub struct GruConfig {
    /// The feature dimension of an input.
    pub input_size: usize,
    /// The feature dimension of the hidden state.
    pub hidden_size: usize,
}

impl GruConfig {
    /// A GRU with new random parameters, uniform in `±1 / sqrt(hidden_size)` as in PyTorch.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> Gru {
        let sizes = [self.input_size, self.hidden_size];
        let [input, hidden] = layer::init("GruConfig", Cell::Gru, sizes, device);
        Gru { input, hidden }
    }
}

/// A gated recurrent unit, one layer in one direction (Cho et al. 2014, "Learning Phrase Representations using RNN
/// Encoder-Decoder").
///
/// ```text
/// r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
/// z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
/// n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
/// h' = (1 - z) * n + z * h
/// ```
///
/// The gates stand side by side in the order r, z, n, as in `weight_ih_l0` and `weight_hh_l0` of PyTorch's
/// `torch.nn.GRU` (which are `[out, in]`; Burn's are `[in, out]`).
#[derive(Module, Debug)]
pub struct Gru {
    /// `W_i`, `[input_size, 3 * hidden_size]`, with bias.
    pub input: Linear,
    /// `W_h`, `[hidden_size, 3 * hidden_size]`, with bias.
    pub hidden: Linear,
}

impl Gru {
    /// The states after each step, and the last; from `initial`, or 0.
    ///
    /// After the steps of an example its state stays what it is, and no gradient depends on what the input holds there.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, initial `[batch, hidden_size]`
    /// - states `[batch, steps, hidden_size]`, last `[batch, hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together, or a length is beyond the steps.
    pub fn forward(
        &self,
        input: Tensor<3>,
        initial: Option<Tensor<2>>,
        steps: &Steps,
    ) -> (Tensor<3>, Tensor<2>) {
        let input = layer::without_padding(input, steps);
        self.forward_gates(self.gates(input), initial, steps)
    }

    /// The input's share of the gates, `W_i x + b_i`.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, result `[batch, steps, 3 * hidden_size]`
    ///
    /// # Panics
    /// If size or type of the input are not those of the layer.
    pub fn gates(&self, input: Tensor<3>) -> Tensor<3> {
        let bias = self.input.bias.as_ref().map(|bias| bias.val());
        linear(input, self.input.weight.val(), bias)
    }

    /// [`forward`](Self::forward) from the input's share of the [`gates`](Self::gates), which a caller may have at less
    /// cost: for a few tokens, from a table of their products. Their gradient is 0 after the steps of an example.
    ///
    /// # Panics
    /// If the shapes do not fit together, or a length is beyond the steps.
    pub fn forward_gates(
        &self,
        gates: Tensor<3>,
        initial: Option<Tensor<2>>,
        steps: &Steps,
    ) -> (Tensor<3>, Tensor<2>) {
        let state = initial.clone().map(|initial| initial.unsqueeze_dim::<3>(0));
        let states = Hidden::once(&self.hidden).run(Cell::Gru, gates, state, steps);
        let states = states.squeeze_dim::<3>(0);
        let last = layer::last(states.clone(), initial, steps);
        (states, last)
    }

    /// The layer for one step after the other.
    pub fn cell(&self) -> GruCell {
        GruCell(Hidden::shared(&self.hidden))
    }
}

/// A [`Gru`] for one step after the other, where a step's input depends on the step before, as in a decoder.
///
/// On the CPU, in `f32` and `f64`, the weight is packed once for all steps, and its gradient is one product of all.
///
/// ```
/// use attention_core::recurrent::GruConfig;
/// use burn::tensor::{Device, Distribution, Tensor};
///
/// let device = Device::flex();
/// let gru = GruConfig::new(5, 7).init(&device);
/// let cell = gru.cell();
/// let mut state = Tensor::<2>::zeros([2, 7], &device);
/// for _ in 0..3 {
///     let input = Tensor::<3>::random([2, 1, 5], Distribution::Default, &device);
///     state = cell.forward(gru.gates(input).squeeze_dim(1), state);
/// }
/// assert_eq!(state.dims(), [2, 7]);
/// ```
#[derive(Clone, Debug)]
pub struct GruCell(Hidden);

impl GruCell {
    /// The state after a step, from the input's share of the [`gates`](Gru::gates) and the state before.
    ///
    /// # Shapes
    /// - gates `[batch, 3 * hidden_size]`, state and result `[batch, hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, gates: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
        let [state] = self.0.step(Cell::Gru, gates, [state]);
        state
    }
}
