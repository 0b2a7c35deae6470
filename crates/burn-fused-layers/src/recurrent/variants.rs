//! Cells without kernels: a GRU that resets before its product, and an LSTM with peepholes. Both are composed of tensor
//! operations on every device, and differentiated by Burn.

use std::array::from_fn;

use burn::tensor::{DType, Tensor};

use super::Steps;
use super::padding::{padding, without_padding};
use crate::harness::sigmoid::sigmoid;

/// A cell that differs from the one of its kind that has kernels.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a call has one")]
pub(super) enum Variant {
    /// A GRU whose reset gate multiplies the state before the product.
    ResetBefore,
    /// An LSTM with the weights of the cell c in i, f and o, `[3, hidden_size]`.
    Peepholes(Tensor<2>),
}

impl Variant {
    /// The variant with parameters of type `dtype`.
    pub(super) fn cast(self, dtype: DType) -> Self {
        match self {
            Self::ResetBefore => Self::ResetBefore,
            Self::Peepholes(weights) => Self::Peepholes(weights.cast(dtype)),
        }
    }

    /// The states after each step, `[states, batch, steps, hidden_size]`, from the nonempty inputs of
    /// [`recurrent`](super::recurrent).
    pub(super) fn states(
        &self,
        gates: Tensor<3>,
        (hidden_weight, hidden_bias): (Tensor<2>, Tensor<1>),
        initial: Tensor<3>,
        steps: &Steps,
    ) -> Tensor<4> {
        let [batch, count, _] = gates.dims();
        let [size, _] = hidden_weight.dims();
        let padding = padding(steps, [batch, count], &gates.device());
        let at_padding = |step: usize| {
            let padding = padding.clone()?.narrow(1, step, 1).squeeze_dim::<2>(1);
            Some(padding.expand([batch, size]))
        };
        // The products of a step, by the number of gates in each.
        let products: &[usize] = match self {
            Self::ResetBefore => &[2, 1],
            Self::Peepholes(_) => &[4],
        };
        let widths = products.iter().map(|gates| gates * size).collect();
        let weights = hidden_weight.split_with_sizes(widths, 1);
        let gates = each_step(without_padding(gates, steps) + hidden_bias.unsqueeze::<3>());
        let parts = initial.iter_dim(0);
        let mut state: Vec<Tensor<2>> = parts.map(|part| part.squeeze_dim(0)).collect();
        let mut states = Vec::with_capacity(count);
        for step in steps.order(count) {
            let next = self.step(gates[step].clone(), &weights, &state);
            state = match at_padding(step) {
                Some(padding) => (next.into_iter().zip(state))
                    .map(|(next, state)| next.mask_where(padding.clone(), state))
                    .collect(),
                None => next,
            };
            states.push(Tensor::stack::<3>(state.clone(), 0));
        }
        if steps.is_reversed {
            states.reverse();
        }
        Tensor::stack(states, 2)
    }

    /// The next state, by the formulas of [`CellKind`](super::CellKind).
    fn step(&self, gates: Tensor<2>, weights: &[Tensor<2>], state: &[Tensor<2>]) -> Vec<Tensor<2>> {
        let output = state[0].clone();
        match self {
            Self::ResetBefore => {
                let [reset, update, new] = columns(gates);
                let [of_reset, of_update] = columns(output.clone().matmul(weights[0].clone()));
                let [reset, update] = [reset + of_reset, update + of_update].map(sigmoid);
                let of_new = (reset * output.clone()).matmul(weights[1].clone());
                let new = (new + of_new).tanh();
                // In this form a kept state is not rounded beside n.
                vec![update.clone() * output - (update - 1.0) * new]
            }
            Self::Peepholes(peepholes) => {
                let [input, forget, new, output] =
                    columns(gates + output.matmul(weights[0].clone()));
                let gate = |sum: Tensor<2>, index: usize, cell: &Tensor<2>| {
                    sigmoid(sum + peepholes.clone().narrow(0, index, 1) * cell.clone())
                };
                let before = &state[1];
                let kept = gate(forget, 1, before) * before.clone();
                let cell = kept + gate(input, 0, before) * new.tanh();
                vec![gate(output, 2, &cell) * cell.clone().tanh(), cell]
            }
        }
    }
}

/// The gates of each step.
///
/// The gradient of a slice is a tensor of the whole: slicing one tensor would make one for each step, halving halves
/// makes `log2(steps)`.
fn each_step(gates: Tensor<3>) -> Vec<Tensor<2>> {
    let [_, count, _] = gates.dims();
    if count == 1 {
        return vec![gates.squeeze_dim(1)];
    }
    let halves = gates.split(count.div_ceil(2), 1);
    halves.into_iter().flat_map(each_step).collect()
}

/// `N` equal parts of the columns.
fn columns<const N: usize>(tensor: Tensor<2>) -> [Tensor<2>; N] {
    let [_, width] = tensor.dims();
    let size = width / N;
    from_fn(|index| tensor.clone().narrow(1, index * size, size))
}
