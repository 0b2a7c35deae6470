//! What GRU and LSTM have in common.

use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};

use crate::checks::assert_positive;
use crate::ops::{self, Cell, Steps};

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

/// The states after each step, `[states, batch, steps, hidden_size]`.
pub(super) fn run(
    cell: Cell,
    hidden: &Linear,
    gates: Tensor<3>,
    initial: Option<Tensor<3>>,
    steps: &Steps,
) -> Tensor<4> {
    let weight = whole(hidden.weight.val());
    let [size, width] = weight.dims();
    let [batch, ..] = gates.dims();
    let options = (&gates.device(), gates.dtype());
    let initial = initial.unwrap_or_else(|| Tensor::zeros([cell.states(), batch, size], options));
    let bias = hidden.bias.as_ref().map(|bias| whole(bias.val()));
    let bias = bias.unwrap_or_else(|| Tensor::zeros([width], options));
    ops::recurrent(cell, gates, (weight, bias), initial, steps.clone())
}

/// A parameter that may be quantised, as it is multiplied.
fn whole<const D: usize>(parameter: Tensor<D>) -> Tensor<D> {
    match parameter.dtype() {
        DType::QFloat(_) => parameter.dequantize(),
        _ => parameter,
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
