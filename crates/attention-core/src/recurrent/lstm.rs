//! Long short-term memory.

use burn::config::Config;
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

use super::Steps;
use super::layer::{self, Hidden};
use crate::linear::linear;
use crate::ops::Cell;

/// Configuration of an [`Lstm`].
///
/// ```
/// use attention_core::recurrent::LstmConfig;
/// use burn::tensor::Device;
///
/// let lstm = LstmConfig::new(5, 7).init(&Device::flex());
/// assert_eq!(lstm.hidden.weight.dims(), [7, 28]); // the gates i, f, g and o
/// ```
#[derive(Config, Debug)]
pub struct LstmConfig {
    /// The feature dimension of an input.
    pub input_size: usize,
    /// The feature dimension of the hidden state.
    pub hidden_size: usize,
}

impl LstmConfig {
    /// An LSTM with new random parameters, uniform in `±1 / sqrt(hidden_size)` as in PyTorch.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> Lstm {
        let sizes = [self.input_size, self.hidden_size];
        let [input, hidden] = layer::init("LstmConfig", Cell::Lstm, sizes, device);
        Lstm { input, hidden }
    }
}

/// Long short-term memory, one layer in one direction (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al.
/// 2000, "Learning to Forget").
///
/// ```text
/// i = sigmoid(W_ii x + b_ii + W_hi h + b_hi)
/// f = sigmoid(W_if x + b_if + W_hf h + b_hf)
/// g = tanh(W_ig x + b_ig + W_hg h + b_hg)
/// o = sigmoid(W_io x + b_io + W_ho h + b_ho)
/// c' = f * c + i * g
/// h' = o * tanh(c')
/// ```
///
/// The gates stand side by side in the order i, f, g, o, as in `weight_ih_l0` and `weight_hh_l0` of PyTorch's
/// `torch.nn.LSTM` (which are `[out, in]`; Burn's are `[in, out]`).
#[derive(Module, Debug)]
pub struct Lstm {
    /// `W_i`, `[input_size, 4 * hidden_size]`, with bias.
    pub input: Linear,
    /// `W_h`, `[hidden_size, 4 * hidden_size]`, with bias.
    pub hidden: Linear,
}

/// The state of an [`Lstm`].
#[derive(Clone, Debug)]
pub struct LstmState {
    /// The output h, `[batch, hidden_size]`.
    pub hidden: Tensor<2>,
    /// The cell c, `[batch, hidden_size]`.
    pub cell: Tensor<2>,
}

impl Lstm {
    /// The outputs h after each step, and the last state; from `initial`, or 0.
    ///
    /// After the steps of an example its state stays what it is, and no gradient depends on what the input holds there.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, result `[batch, steps, hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together, or a length is beyond the steps.
    pub fn forward(
        &self,
        input: Tensor<3>,
        initial: Option<LstmState>,
        steps: &Steps,
    ) -> (Tensor<3>, LstmState) {
        let input = layer::without_padding(input, steps);
        self.forward_gates(self.gates(input), initial, steps)
    }

    /// The input's share of the gates, `W_i x + b_i`.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, result `[batch, steps, 4 * hidden_size]`
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
        initial: Option<LstmState>,
        steps: &Steps,
    ) -> (Tensor<3>, LstmState) {
        let [hidden, cell] = match initial {
            Some(LstmState { hidden, cell }) => [Some(hidden), Some(cell)],
            None => [None, None],
        };
        let initial = hidden.clone().zip(cell.clone());
        let initial = initial.map(|(hidden, cell)| Tensor::stack(vec![hidden, cell], 0));
        let states = Hidden::once(&self.hidden).run(Cell::Lstm, gates, initial, steps);
        let [outputs, cells] = [0, 1].map(|n| states.clone().narrow(0, n, 1).squeeze_dim::<3>(0));
        let state = LstmState {
            hidden: layer::last(outputs.clone(), hidden, steps),
            cell: layer::last(cells, cell, steps),
        };
        (outputs, state)
    }

    /// The layer for one step after the other.
    pub fn cell(&self) -> LstmCell {
        LstmCell(Hidden::shared(&self.hidden))
    }
}

/// An [`Lstm`] for one step after the other, where a step's input depends on the step before, as in a decoder.
///
/// On the CPU, in `f32` and `f64`, the weight is packed once for all steps, and its gradient is one product of all.
#[derive(Clone, Debug)]
pub struct LstmCell(Hidden);

impl LstmCell {
    /// The state after a step, from the input's share of the [`gates`](Lstm::gates) and the state before.
    ///
    /// # Shapes
    /// - gates `[batch, 4 * hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, gates: Tensor<2>, state: LstmState) -> LstmState {
        let LstmState { hidden, cell } = state;
        let [hidden, cell] = self.0.step(Cell::Lstm, gates, [hidden, cell]);
        LstmState { hidden, cell }
    }
}
