//! How a recurrent layer runs.

use burn::nn::Linear;
use burn::tensor::Tensor;

use super::states::{States, of_cell};
use super::variants::Variant;
use crate::harness::parameter::of_linear;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::wide::{wide, widened};
use crate::ops::{CellKind, Steps};
use crate::read_shared::read_weight;

/// The cell and the linear layer of its hidden state, as calls use them.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    cell: CellKind,
    variant: Option<Variant>,
    /// `[hidden_size, gates * hidden_size]`
    weight: Tensor<2>,
    /// `[gates * hidden_size]`
    bias: Option<Tensor<1>>,
    /// State that many calls share.
    shared: Option<SharedWeight>,
}

impl Hidden {
    /// For a single call.
    pub(super) fn once(cell: CellKind, variant: Option<Variant>, layer: &Linear) -> Self {
        let (weight, bias) = of_linear(layer);
        Self {
            cell,
            variant,
            weight,
            bias,
            shared: None,
        }
    }

    /// The same for many calls, with half precision as f32: their gradients are summed in f32.
    pub(super) fn for_many_calls(self) -> Self {
        let dtype = wide(self.weight.dtype());
        Self {
            variant: self.variant.map(|variant| variant.cast(dtype)),
            weight: self.weight.cast(dtype),
            bias: self.bias.map(widened),
            shared: Some(SharedWeight::default()),
            ..self
        }
    }

    /// The states after each step.
    pub(super) fn run(self, gates: Tensor<3>, initial: Option<Tensor<3>>, steps: &Steps) -> States {
        let [size, width] = self.weight.dims();
        let [batch, ..] = gates.dims();
        let options = (&gates.device(), gates.dtype());
        let zeros = || Tensor::zeros([self.cell.states(), batch, size], options);
        let initial = initial.unwrap_or_else(zeros);
        let bias = self.bias.unwrap_or_else(|| Tensor::zeros([width], options));
        let weight = read_weight(self.weight, self.shared.as_ref());
        let (cell, hidden) = ((self.cell, self.variant), (weight, bias));
        of_cell(cell, gates, hidden, self.shared, initial, steps.clone())
    }
}

/// The parts of a state, concatenated, `[states, batch, hidden_size]`; f32 if one is f32 and another half precision.
pub(super) fn joined(parts: Vec<Tensor<2>>) -> Tensor<3> {
    match parts.as_slice() {
        [part] => part.clone().unsqueeze_dim(0),
        [hidden, cell] if hidden.dtype() != cell.dtype() => {
            Tensor::stack(parts.into_iter().map(widened).collect(), 0)
        }
        _ => Tensor::stack(parts, 0),
    }
}
