//! What GRU and LSTM have in common.

use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::checks::assert_positive;
use crate::linear::whole;
use crate::ops::{self, Cell, SharedWeight, Steps};

/// The linear layers of input and hidden state, with random parameters as in PyTorch: uniform in
/// `±1 / sqrt(hidden_size)`.
///
/// # Panics
/// If a size is 0.
pub(super) fn init(
    config: &str,
    cell: Cell,
    [input_size, hidden_size]: [usize; 2],
    device: &Device,
) -> [Linear; 2] {
    assert_positive(
        config,
        &[("input_size", input_size), ("hidden_size", hidden_size)],
    );
    let bound = 1.0 / (hidden_size as f64).sqrt();
    [input_size, hidden_size].map(|from| {
        LinearConfig::new(from, cell.gates() * hidden_size)
            .with_initializer(Initializer::Uniform {
                min: -bound,
                max: bound,
            })
            .init(device)
    })
}

/// The linear layer of the hidden state, as calls read it.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    /// `[hidden_size, gates * hidden_size]`
    weight: Tensor<2>,
    /// `[gates * hidden_size]`
    bias: Option<Tensor<1>>,
    /// Of many calls.
    shared: Option<SharedWeight>,
}

impl Hidden {
    /// For one call.
    pub(super) fn once(layer: &Linear) -> Self {
        Self {
            weight: whole(layer.weight.val()),
            bias: layer.bias.as_ref().map(|bias| whole(bias.val())),
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

    /// The states after each step, `[states, batch, steps, hidden_size]`.
    pub(super) fn run(
        self,
        cell: Cell,
        gates: Tensor<3>,
        initial: Option<Tensor<3>>,
        steps: &Steps,
    ) -> Tensor<4> {
        let [size, width] = self.weight.dims();
        let [batch, ..] = gates.dims();
        let options = (&gates.device(), gates.dtype());
        let zeros = || Tensor::zeros([cell.states(), batch, size], options);
        let initial = initial.unwrap_or_else(zeros);
        let bias = self.bias.unwrap_or_else(|| Tensor::zeros([width], options));
        let weight = match &self.shared {
            Some(shared) => shared.read(self.weight),
            None => self.weight,
        };
        let hidden = (weight, bias);
        ops::recurrent(cell, gates, hidden, self.shared, initial, steps.clone())
    }

    /// The states after one step, `[batch, hidden_size]` each.
    pub(super) fn step<const N: usize>(
        &self,
        cell: Cell,
        gates: Tensor<2>,
        states: [Tensor<2>; N],
    ) -> [Tensor<2>; N] {
        if states[0].dims()[0] == 0 {
            return states; // Of no examples. Burn's views take an axis of 0 for another one's.
        }
        let states = states.map(|state| state.unsqueeze_dim::<3>(0));
        let states = match states.as_slice() {
            [state] => state.clone(),
            _ => Tensor::cat(states.into(), 0),
        };
        let gates = gates.unsqueeze_dim::<3>(1);
        let states = self.clone().run(cell, gates, Some(states), &Steps::all());
        std::array::from_fn(|n| {
            let state = match N {
                1 => states.clone(),
                _ => states.clone().narrow(0, n, 1),
            };
            state.squeeze_dim::<3>(0).squeeze_dim::<2>(1)
        })
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

/// The state after the last step, `[batch, hidden_size]`, of `[batch, steps, hidden_size]`: padding holds it.
///
/// Without a step it is `initial`, or 0.
pub(super) fn last(states: Tensor<3>, initial: Option<Tensor<2>>, steps: &Steps) -> Tensor<2> {
    let [batch, count, size] = states.dims();
    if count == 0 {
        let options = (&states.device(), states.dtype());
        return initial.unwrap_or_else(|| Tensor::zeros([batch, size], options));
    }
    let last = if steps.is_reversed { 0 } else { count - 1 };
    states.narrow(1, last, 1).squeeze_dim::<2>(1)
}
