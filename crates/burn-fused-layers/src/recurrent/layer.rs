//! One recurrent layer in one direction.

use std::iter::once;

use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::padding::without_padding;
use super::run::{Hidden, joined};
use super::variants::Variant;
use super::{CellKind, RecurrentCell, Steps};
use crate::harness::checks::{Argument, assert_together};
use crate::harness::parameter::{of_linear, value};
use crate::linear::{assert_layer, linear};

/// One layer of [`Recurrent`](super::Recurrent), in one direction.
///
/// The gates are concatenated, for a GRU in the order r, z, n and for an LSTM in the order i, f, g, o, as in PyTorch's
/// `weight_ih_l0` and `weight_hh_l0` (which are `[out, in]`; Burn's are `[in, out]`).
#[derive(Module, Debug)]
pub struct RecurrentLayer {
    /// `W_i`, `[input_size, gates * hidden_size]`, with bias.
    pub input: Linear,
    /// `W_h`, `[hidden_size, gates * hidden_size]`, with bias.
    pub hidden: Linear,
    /// The weights `p_i`, `p_f` and `p_o` of an LSTM with peepholes, `[3, hidden_size]`.
    pub peepholes: Option<Param<Tensor<2>>>,
    /// The computation of a step.
    #[module(skip)]
    pub kind: CellKind,
    /// Whether the reset gate of a GRU multiplies after the product; see [`CellKind::Gru`].
    #[module(skip)]
    pub reset_after: bool,
}

/// The state of a [`RecurrentLayer`].
#[derive(Clone, Debug)]
pub struct RecurrentState {
    /// The output h, `[batch, hidden_size]`.
    pub hidden: Tensor<2>,
    /// The cell c of an LSTM, `[batch, hidden_size]`; `None` for a GRU. For an h in half precision it may be f32, as a
    /// [`RecurrentCell`] returns it, because c is a sum over steps.
    pub cell: Option<Tensor<2>>,
}

impl RecurrentState {
    /// A state that consists of the output only.
    pub fn of_hidden(hidden: Tensor<2>) -> Self {
        Self { hidden, cell: None }
    }

    /// The state from its parts, h before c.
    pub(super) fn of_parts(mut parts: impl Iterator<Item = Tensor<2>>) -> Self {
        let hidden = parts.next().expect("a state has at least one part");
        let cell = parts.next();
        Self { hidden, cell }
    }

    /// The parts of the state, h before c.
    ///
    /// # Panics
    /// If a layer of this kind has another number of parts.
    pub(super) fn parts(self, kind: CellKind) -> Vec<Tensor<2>> {
        let expects_cell = kind == CellKind::Lstm;
        assert!(
            self.cell.is_some() == expects_cell,
            "recurrent layer: state of a {kind:?} expected {} the cell c",
            if expects_cell { "with" } else { "without" }
        );
        if let Some(cell) = &self.cell {
            let dtype = self.hidden.dtype();
            let others = [Argument::floats_or_wide("cell c", cell, dtype)];
            let output = Argument::floats("output h", &self.hidden);
            assert_together("recurrent layer", output, others);
        }
        once(self.hidden).chain(self.cell).collect()
    }
}

impl RecurrentLayer {
    /// A layer with new random parameters, for an input size and a hidden size.
    pub(super) fn init(kind: CellKind, sizes: [usize; 2], device: &Device) -> Self {
        let [_, hidden_size] = sizes;
        let initializer = initializer(hidden_size);
        let [input, hidden] = sizes.map(|from| {
            LinearConfig::new(from, kind.gates() * hidden_size)
                .with_initializer(initializer.clone())
                .init(device)
        });
        Self {
            input,
            hidden,
            peepholes: None,
            kind,
            reset_after: true,
        }
    }

    /// The cell, with the linear layer of the hidden state.
    pub(super) fn read_hidden(&self) -> Hidden {
        let variant = match self.kind {
            CellKind::Gru => (!self.reset_after).then_some(Variant::ResetBefore),
            CellKind::Lstm => self.peepholes.as_ref().map(value).map(Variant::Peepholes),
        };
        Hidden::once(self.kind, variant, &self.hidden)
    }

    /// The outputs after each step, and the final state; started from `initial`, or 0.
    ///
    /// After the last step of an example its state does not change, and no gradient depends on the input there.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, result `[batch, steps, hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together, a length is beyond the steps, or the state belongs to another kind of cell.
    pub fn forward(
        &self,
        input: Tensor<3>,
        initial: Option<RecurrentState>,
        steps: &Steps,
    ) -> (Tensor<3>, RecurrentState) {
        let input = without_padding(input, steps);
        self.forward_gates(self.gates(input), initial, steps)
    }

    /// The input projection of the gates, `W_i x + b_i`.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, result `[batch, steps, gates * hidden_size]`
    ///
    /// # Panics
    /// If size or type of the input differ from those of the layer.
    pub fn gates(&self, input: Tensor<3>) -> Tensor<3> {
        let (weight, bias) = of_linear(&self.input);
        assert_layer("recurrent layer", ("input", &input), &weight, bias.as_ref());
        linear(input, weight, bias)
    }

    /// [`forward`](Self::forward) from the input projection of the [`gates`](Self::gates). Its gradient is 0 after the
    /// last step of an example.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_gates(
        &self,
        gates: Tensor<3>,
        initial: Option<RecurrentState>,
        steps: &Steps,
    ) -> (Tensor<3>, RecurrentState) {
        let initial = initial.map(|state| state.parts(self.kind));
        let [batch, count, _] = gates.dims();
        let [size, _] = self.hidden.weight.dims();
        let options = (&gates.device(), gates.dtype());
        if batch == 0 {
            // Burn's views mistake an axis of size 0 for a placeholder.
            let ends = (0..self.kind.states()).map(|_| Tensor::zeros([0, size], options));
            let end = RecurrentState::of_parts(ends);
            return (Tensor::zeros([0, count, size], options), end);
        }
        let hidden = self.read_hidden();
        let states = hidden.run(gates, initial.clone().map(joined), steps);
        let ends = (0..self.kind.states()).map(|index| match (count, &initial) {
            // Without steps the state does not change.
            (0, Some(initial)) => initial[index].clone(),
            (0, None) => Tensor::zeros([batch, size], options),
            _ => states.last(index),
        });
        let end = RecurrentState::of_parts(ends);
        (states.of_steps(0), end)
    }

    /// The layer, to be run step by step.
    pub fn cell(&self) -> RecurrentCell {
        RecurrentCell::new(self)
    }
}

/// Uniform in `±1 / sqrt(hidden_size)`, as in PyTorch.
pub(super) fn initializer(hidden_size: usize) -> Initializer {
    let bound = 1.0 / (hidden_size as f64).sqrt();
    Initializer::Uniform {
        min: -bound,
        max: bound,
    }
}
