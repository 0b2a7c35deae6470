//! How a recurrent layer runs.

use burn::nn::Linear;
use burn::tensor::{Bool, Tensor, TensorData};

use super::states::{States, recurrent};
use crate::harness::parameter::of_linear;
use crate::harness::shared_weight::SharedWeight;
use crate::ops::{CellKind, Steps};
use crate::read_shared::read_weight;

/// The linear layer of the hidden state, as calls read it.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    /// `[hidden_size, gates * hidden_size]`
    weight: Tensor<2>,
    /// `[gates * hidden_size]`
    bias: Option<Tensor<1>>,
    /// The part that many calls share.
    shared: Option<SharedWeight>,
}

impl Hidden {
    /// For one call.
    pub(super) fn once(layer: &Linear) -> Self {
        let (weight, bias) = of_linear(layer);
        Self {
            weight,
            bias,
            shared: None,
        }
    }

    /// For many calls.
    pub(super) fn shared(layer: &Linear) -> Self {
        Self {
            shared: Some(SharedWeight::default()),
            ..Self::once(layer)
        }
    }

    /// The states after each step.
    pub(super) fn run(
        self,
        cell: CellKind,
        gates: Tensor<3>,
        initial: Option<Tensor<3>>,
        steps: &Steps,
    ) -> States {
        let [size, width] = self.weight.dims();
        let [batch, ..] = gates.dims();
        let options = (&gates.device(), gates.dtype());
        let zeros = || Tensor::zeros([cell.states(), batch, size], options);
        let initial = initial.unwrap_or_else(zeros);
        let bias = self.bias.unwrap_or_else(|| Tensor::zeros([width], options));
        let weight = match &self.shared {
            Some(shared) => read_weight(self.weight, shared),
            None => self.weight,
        };
        let hidden = (weight, bias);
        recurrent(cell, gates, hidden, self.shared, initial, steps.clone())
    }
}

/// The parts of a state together, `[states, batch, hidden_size]`.
pub(super) fn joined(parts: Vec<Tensor<2>>) -> Tensor<3> {
    match parts.as_slice() {
        [part] => part.clone().unsqueeze_dim(0),
        _ => Tensor::stack(parts, 0),
    }
}

/// The input with zeros after the steps of each example: whatever is there, the gradient of the input's weight must not
/// read it.
pub(super) fn without_padding(input: Tensor<3>, steps: &Steps) -> Tensor<3> {
    let [batch, count, _] = input.dims();
    let Some(lens) = &steps.lens else {
        return input;
    };
    if lens.len() != batch || lens.iter().all(|&len| len >= count) {
        return input;
    }
    let flags = lens
        .iter()
        .flat_map(|&len| (0..count).map(move |step| step >= len));
    let flags = TensorData::new(flags.collect::<Vec<bool>>(), [batch, count, 1]);
    let padding = Tensor::<3, Bool>::from_data(flags, &input.device());
    let dims = input.dims();
    input.mask_fill(padding.expand(dims), 0.0)
}
