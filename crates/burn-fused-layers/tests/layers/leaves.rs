//! The tensors of which the states of a recurrent layer are computed.

use attention_tests::Array;
use burn::tensor::{DType, Device, Gradients, Tensor};
use burn_fused_layers::recurrent::{CellKind, States, Steps, recurrent};

/// Each with a gradient.
#[derive(Clone)]
pub(crate) struct Leaves {
    pub(crate) gates: Tensor<3>,
    pub(crate) weight: Tensor<2>,
    pub(crate) bias: Tensor<1>,
    pub(crate) initial: Tensor<3>,
}

impl Leaves {
    /// Drawn, of examples, steps and hidden units.
    pub(crate) fn draw(cell: CellKind, [batch, count, size]: [usize; 3], device: &Device) -> Self {
        let width = cell.gates() * size;
        let initial = Array::draw(4, &[cell.states(), batch, size]);
        Self {
            gates: Array::draw(1, &[batch, count, width]).leaf(device, DType::F32),
            weight: Array::draw(2, &[size, width]).leaf(device, DType::F32),
            bias: Array::draw(3, &[width]).leaf(device, DType::F32),
            initial: initial.leaf(device, DType::F32),
        }
    }

    pub(crate) fn states(&self, cell: CellKind, steps: &Steps) -> States {
        let (gates, initial) = (self.gates.clone(), self.initial.clone());
        let hidden = (self.weight.clone(), self.bias.clone());
        recurrent(cell, gates, hidden, None, initial, steps.clone())
    }

    /// Of gates, weight, bias and initial state.
    pub(crate) fn gradients(&self, gradients: &Gradients) -> [Array; 4] {
        [
            Array::read(self.gates.grad(gradients).unwrap()),
            Array::read(self.weight.grad(gradients).unwrap()),
            Array::read(self.bias.grad(gradients).unwrap()),
            Array::read(self.initial.grad(gradients).unwrap()),
        ]
    }
}
