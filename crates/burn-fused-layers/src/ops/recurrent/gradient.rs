//! The definition with a gradient of its own, computed step by step from the last.
//!
//! Differentiated operation by operation, each step's slice of the gates would add a dense gradient of all gates.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Scalar;

use super::states::StateGradients;
use super::steps::{self, Sizes, part};
use super::{CellKind, Recurred, RecurrentInputs};
use crate::harness::kernel::{Asked, Gradient, Kernel};
use crate::ops::linear::rows;

/// The definition in training: a single node, with a gradient of its own.
pub(crate) const fn kernel<B: Backend>()
-> Kernel<B, RecurrentInputs<B>, FloatTensor<B>, Recurred<B>, 4> {
    Kernel {
        infer: steps::composed,
        train: |inputs, _| forward(inputs),
        backward,
    }
}

/// The states, and the state for [`backward`].
fn forward<B: Backend>(inputs: RecurrentInputs<B>) -> (FloatTensor<B>, Recurred<B>) {
    let (states, saved) = steps::run(&inputs, true);
    let recurred = Recurred {
        inputs,
        states: states.clone(),
        saved: B::float_cat(saved, 1),
    };
    (states, recurred)
}

/// The requested gradients of gates, hidden weight, hidden bias and initial state.
fn backward<B: Backend>(
    Recurred {
        inputs,
        states,
        saved,
    }: Recurred<B>,
    gradient: FloatTensor<B>,
    asked: Asked<4>,
) -> [Gradient<B>; 4] {
    let gradients = StateGradients::new(&inputs, &states, gradient, &asked);
    let [wants_gates, wants_weight, wants_bias, wants_initial] = asked.wanted;
    let wants_hidden = wants_weight || wants_bias;
    let sizes = Sizes::of(&inputs);
    let Sizes { batch, count, size } = sizes;
    let (gates, vectors) = (inputs.cell.gates(), inputs.cell.states());
    let transposed = B::float_swap_dims(inputs.hidden_weight.clone(), 0, 1);
    let at = |tensor: &FloatTensor<B>, n: usize, step: usize| {
        part::<B>(tensor, &[n..n + 1, 0..batch, step..step + 1, 0..size])
    };
    let no_gradient = || {
        let (device, dtype) = (states.device(), states.dtype().into());
        B::float_zeros([batch, size].into(), &device, dtype)
    };
    let last = gradients.last.into_iter();
    let mut carried: Vec<_> = last.map(|last| last.map(rows::<B>)).collect();
    let mut of_gates: Vec<Option<FloatTensor<B>>> = vec![None; count];
    let mut of_hidden = Vec::with_capacity(count);
    let mut outputs_before = Vec::with_capacity(count);
    let order = inputs.steps.order(count);
    for (position, &step) in order.iter().enumerate().rev() {
        let above: Vec<_> = carried
            .iter()
            .enumerate()
            .map(|(n, carried)| {
                let of_steps = gradients.of_steps[n].as_ref();
                let of_step = of_steps.map(|of_steps| at(of_steps, 0, step));
                match (of_step, carried.clone()) {
                    (Some(of_step), Some(carried)) => B::float_add(carried, of_step),
                    (of_step, carried) => of_step.or(carried).unwrap_or_else(no_gradient),
                }
            })
            .collect();
        let before: Vec<_> = (0..vectors)
            .map(|n| match position.checked_sub(1) {
                Some(position) => at(&states, n, order[position]),
                None => sizes.initial(&inputs, n),
            })
            .collect();
        let after: Vec<_> = (0..vectors).map(|n| at(&states, n, step)).collect();
        let values = sizes.of_step::<B>(4, &saved, step);
        let StepGradients {
            mut inputs_share,
            mut hidden_share,
            mut state,
        } = step_gradients::<B>(inputs.cell, &values, [&before, &after], &above);
        if let Some(padding) = inputs.steps.padding::<B>(step, size, &above[0]) {
            for share in inputs_share.iter_mut().chain(&mut hidden_share) {
                *share = B::float_mask_fill(share.clone(), padding.clone(), 0.0.into());
            }
            for (state, above) in state.iter_mut().zip(&above) {
                *state = B::float_mask_where(state.clone(), padding.clone(), above.clone());
            }
        }
        let hidden = B::float_cat(hidden_share, 1);
        // Before the first step there is only the initial state.
        if position > 0 || wants_initial {
            let through_gates = B::float_matmul(hidden.clone(), transposed.clone());
            state[0] = B::float_add(state[0].clone(), through_gates);
        }
        carried = state.into_iter().map(Some).collect();
        if wants_gates {
            let of_inputs = B::float_cat(inputs_share, 1);
            of_gates[step] = Some(sizes.with_step_axis::<B>(of_inputs));
        }
        if wants_hidden {
            of_hidden.push(hidden);
        }
        if wants_weight {
            outputs_before.extend(before.into_iter().next());
        }
    }
    let of_gates = wants_gates.then(|| B::float_cat(of_gates.into_iter().flatten().collect(), 1));
    let of_hidden = wants_hidden.then(|| B::float_cat(of_hidden, 0));
    // The gradient of the weight is one product over all steps.
    let of_weight = of_hidden.clone().filter(|_| wants_weight).map(|of_hidden| {
        let outputs_before = B::float_swap_dims(B::float_cat(outputs_before, 0), 0, 1);
        B::float_matmul(outputs_before, of_hidden)
    });
    let of_bias = of_hidden
        .filter(|_| wants_bias)
        .map(|of_hidden| B::float_reshape(B::float_sum_dim(of_hidden, 0), [gates * size].into()));
    let of_initial = wants_initial.then(|| {
        let of_initial = carried
            .into_iter()
            .flatten()
            .map(|carried| B::float_reshape(carried, [1, batch, size].into()));
        B::float_cat(of_initial.collect(), 0)
    });
    [of_gates, of_weight, of_bias, of_initial]
        .map(|gradient| gradient.map_or(Gradient::Absent, Gradient::Whole))
}

/// The gradients of a step, `[batch, hidden_size]` each.
struct StepGradients<B: Backend> {
    /// The gradients of the input projection of the gates.
    inputs_share: Vec<FloatTensor<B>>,
    /// The gradients of the hidden projection of the gates.
    hidden_share: Vec<FloatTensor<B>>,
    /// The gradients of the previous state, except the part through the gates.
    state: Vec<FloatTensor<B>>,
}

fn step_gradients<B: Backend>(
    cell: CellKind,
    values: &[FloatTensor<B>],
    [before, after]: [&[FloatTensor<B>]; 2],
    above: &[FloatTensor<B>],
) -> StepGradients<B> {
    let mul = |a: &FloatTensor<B>, b: &FloatTensor<B>| B::float_mul(a.clone(), b.clone());
    // 1 - x
    let rest = |x: &FloatTensor<B>| B::float_add_scalar(B::float_neg(x.clone()), Scalar::from(1.0));
    let sigmoid_slope = |y: &FloatTensor<B>| mul(y, &rest(y));
    let tanh_slope = |y: &FloatTensor<B>| rest(&mul(y, y));
    match cell {
        CellKind::Gru => {
            let [reset, update, new, hidden] = [0, 1, 2, 3].map(|index| &values[index]);
            let through = mul(&above[0], &rest(update));
            let d_new = mul(&through, &tanh_slope(new));
            let difference = B::float_sub(before[0].clone(), new.clone());
            let d_update = mul(&mul(&above[0], &difference), &sigmoid_slope(update));
            let d_reset = mul(&mul(&d_new, hidden), &sigmoid_slope(reset));
            let d_hidden = mul(&d_new, reset);
            StepGradients {
                inputs_share: vec![d_reset.clone(), d_update.clone(), d_new],
                hidden_share: vec![d_reset, d_update, d_hidden],
                state: vec![mul(&above[0], update)],
            }
        }
        CellKind::Lstm => {
            let [input, forget, new, output] = [0, 1, 2, 3].map(|index| &values[index]);
            let tanh_of_cell = B::float_tanh(after[1].clone());
            let through = mul(&mul(&above[0], output), &tanh_slope(&tanh_of_cell));
            let d_cell = B::float_add(above[1].clone(), through);
            let gates = vec![
                mul(&mul(&d_cell, new), &sigmoid_slope(input)),
                mul(&mul(&d_cell, &before[1]), &sigmoid_slope(forget)),
                mul(&mul(&d_cell, input), &tanh_slope(new)),
                mul(&mul(&above[0], &tanh_of_cell), &sigmoid_slope(output)),
            ];
            let nothing = B::float_mul_scalar(d_cell.clone(), Scalar::from(0.0));
            StepGradients {
                inputs_share: gates.clone(),
                hidden_share: gates,
                state: vec![nothing, mul(&d_cell, forget)],
            }
        }
    }
}
