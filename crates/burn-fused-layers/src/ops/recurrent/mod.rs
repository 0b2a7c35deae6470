//! Recurrent layers over whole sequences: GRU and LSTM, one layer in one direction.

pub(super) mod cpu;
pub(super) mod gradient;
pub(super) mod states;
pub(super) mod steps;

use std::sync::Arc;

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;
use burn::config::Config;

use self::states::StateDeposit;
use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::tracked::inputs;

/// The computation of a step.
#[derive(Config, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// A gated recurrent unit (Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder"), as in
    /// PyTorch. Its state is its output h.
    ///
    /// ```text
    /// r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
    /// z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    /// n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
    /// h' = (1 - z) * n + z * h
    /// ```
    ///
    /// A layer with [`reset_after`](crate::recurrent::RecurrentConfig::reset_after) false resets before the product, as
    /// in the paper's first version, in Keras and Burn by the option of this name, and by default in ONNX
    /// (`linear_before_reset = 0`):
    ///
    /// ```text
    /// n = tanh(W_in x + b_in + W_hn (r * h) + b_hn)
    /// ```
    Gru,
    /// Long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000, "Learning to
    /// Forget"). Its state is its output h and the cell c.
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
    /// In a layer with [`peepholes`](crate::recurrent::RecurrentConfig::peepholes) (Gers and Schmidhuber 2000,
    /// "Recurrent Nets that Time and Count"; ONNX's `P`) the gates depend on the cell, too:
    ///
    /// ```text
    /// i = sigmoid(W_ii x + b_ii + W_hi h + b_hi + p_i * c)
    /// f = sigmoid(W_if x + b_if + W_hf h + b_hf + p_f * c)
    /// o = sigmoid(W_io x + b_io + W_ho h + b_ho + p_o * c')
    /// ```
    Lstm,
}

impl CellKind {
    /// The number of gates.
    pub fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// The number of vectors in the state.
    pub fn states(self) -> usize {
        match self {
            Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// The number of steps, and their order.
///
/// ```
/// use burn_fused_layers::recurrent::Steps;
///
/// let steps = Steps::of_lens([4, 3]).reversed();
/// assert_eq!(steps.lens, Some(vec![4, 3]));
/// assert!(steps.is_reversed);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The number of steps of each example; later steps do not change the state. All steps if absent.
    pub lens: Option<Vec<usize>>,
    /// Whether the last step comes first.
    pub is_reversed: bool,
}

impl Steps {
    /// All steps, from the first.
    pub fn all() -> Self {
        Self::default()
    }

    /// The first `lens` steps of each example, `[batch]`.
    pub fn of_lens(lens: impl Into<Vec<usize>>) -> Self {
        Self {
            lens: Some(lens.into()),
            is_reversed: false,
        }
    }

    /// The same steps in the opposite order.
    pub fn reversed(mut self) -> Self {
        self.is_reversed = !self.is_reversed;
        self
    }
}

inputs! {
    /// Inputs of [`LayerOps::recurrent`](super::LayerOps::recurrent).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct RecurrentInputs[4] {
        /// The input projection of the gates, `[batch, steps, gates * hidden_size]`.
        tracked gates: FloatTensor<B>,
        /// `[hidden_size, gates * hidden_size]`
        tracked hidden_weight: FloatTensor<B>,
        /// `[gates * hidden_size]`
        tracked hidden_bias: FloatTensor<B>,
        /// `[states, batch, hidden_size]`
        tracked initial: FloatTensor<B>,
        /// The computation of a step.
        same cell: CellKind,
        /// The number of steps, and their order.
        same steps: Arc<Steps>,
        /// State that calls with the same weight share.
        same shared: Option<SharedWeight>,
        /// The slot where readers of the states deposit their gradients, for a single call.
        same reads: GradientSlot,
    }
    slots: |inputs| [None, SharedWeight::slot_of(&inputs.shared), None, None];
    readers: StateDeposit in reads;
}

/// The saved state of the backward pass.
#[derive(Clone, Debug)]
pub(crate) struct Recurred<B: Backend> {
    /// The inputs; the kernels have the values of the gates in the place of their input projection.
    pub(super) inputs: RecurrentInputs<B>,
    /// `[states, batch, steps, hidden_size]`
    pub(super) states: FloatTensor<B>,
    /// For a GRU the hidden projection of n, `[batch, steps, hidden_size]`; in the definition after the gates' values.
    pub(super) saved: FloatTensor<B>,
}
