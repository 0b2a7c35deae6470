//! The definition, step by step.

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Scalar, Slice};

use super::{CellKind, RecurrentInputs, Steps};
use crate::harness::upload::upload;

/// The states after each step.
pub(crate) fn composed<B: Backend>(inputs: RecurrentInputs<B>) -> FloatTensor<B> {
    run(&inputs, false).0
}

/// The states and, for training, the values of each step that the backward pass needs. The outputs of the steps are
/// concatenated once at the end: writing each into the whole sequence would copy the sequence in every training step.
pub(super) fn run<B: Backend>(
    inputs: &RecurrentInputs<B>,
    is_training: bool,
) -> (FloatTensor<B>, Vec<FloatTensor<B>>) {
    let sizes = Sizes::of(inputs);
    let Sizes {
        batch,
        count,
        hidden_size,
    } = sizes;
    let width = inputs.cell.gates() * hidden_size;
    let bias = B::float_reshape(inputs.hidden_bias.clone(), [1, width].into());
    let mut state: Vec<FloatTensor<B>> = (0..inputs.cell.states())
        .map(|n| {
            part::<B>(
                &inputs.initial,
                &[n..n + 1, 0..batch, 0..hidden_size],
                [batch, hidden_size],
            )
        })
        .collect();
    let mut states: Vec<Vec<Option<FloatTensor<B>>>> = vec![vec![None; count]; state.len()];
    let mut saved: Vec<Option<FloatTensor<B>>> = vec![None; count];
    for step in inputs.steps.order(count) {
        let gates = sizes.step_gates::<B>(inputs.cell, &inputs.gates, step);
        let hidden = B::float_matmul(state[0].clone(), inputs.hidden_weight.clone());
        let hidden = B::float_add(hidden, bias.clone());
        let hidden = sizes.columns::<B>(inputs.cell.gates(), &hidden, batch);
        let (next, values) = cell_step::<B>(inputs.cell, &gates, &hidden, &state);
        let padding = inputs.steps.padding::<B>(step, hidden_size, &state[0]);
        for ((state, next), states) in state.iter_mut().zip(next).zip(&mut states) {
            let next = match &padding {
                Some(padding) => B::float_mask_where(next, padding.clone(), state.clone()),
                None => next,
            };
            states[step] = Some(sizes.with_step_axis::<B>(next.clone()));
            *state = next;
        }
        if is_training {
            let values = B::float_cat(values, 1);
            saved[step] = Some(sizes.with_step_axis::<B>(values));
        }
    }
    let states = states.into_iter().map(|states| {
        let states = B::float_cat(states.into_iter().flatten().collect(), 1);
        B::float_reshape(states, [1, batch, count, hidden_size].into())
    });
    let states = B::float_cat(states.collect(), 0);
    (states, saved.into_iter().flatten().collect())
}

/// The next state, and the values r, z, n and the hidden projection of n, or i, f, g and o.
fn cell_step<B: Backend>(
    cell: CellKind,
    inputs: &[FloatTensor<B>],
    hidden: &[FloatTensor<B>],
    state: &[FloatTensor<B>],
) -> (Vec<FloatTensor<B>>, Vec<FloatTensor<B>>) {
    let sum = |gate: usize| B::float_add(inputs[gate].clone(), hidden[gate].clone());
    match cell {
        CellKind::Gru => {
            let [reset, update] = [0, 1].map(|gate| B::sigmoid(sum(gate)));
            let from_hidden = B::float_mul(reset.clone(), hidden[2].clone());
            let new = B::float_tanh(B::float_add(inputs[2].clone(), from_hidden));
            // `z h - (z - 1) n`, because `n + z (h - n)` would round a kept state beside n in every step.
            let kept = B::float_mul(update.clone(), state[0].clone());
            let less_one = B::float_sub_scalar(update.clone(), Scalar::from(1.0));
            let next = B::float_sub(kept, B::float_mul(less_one, new.clone()));
            (vec![next], vec![reset, update, new, hidden[2].clone()])
        }
        CellKind::Lstm => {
            let [input, forget, output] = [0, 1, 3].map(|gate| B::sigmoid(sum(gate)));
            let new = B::float_tanh(sum(2));
            let kept = B::float_mul(forget.clone(), state[1].clone());
            let cell = B::float_add(kept, B::float_mul(input.clone(), new.clone()));
            let next = B::float_mul(output.clone(), B::float_tanh(cell.clone()));
            (vec![next, cell], vec![input, forget, new, output])
        }
    }
}

impl Steps {
    /// The indices of the steps in their order.
    pub(crate) fn order(&self, count: usize) -> Vec<usize> {
        let steps = 0..count;
        if self.is_reversed {
            steps.rev().collect()
        } else {
            steps.collect()
        }
    }

    /// True where a step is past its example's length, `[batch, hidden_size]`; `None` if nowhere.
    pub(super) fn padding<B: Backend>(
        &self,
        step: usize,
        hidden_size: usize,
        like: &FloatTensor<B>,
    ) -> Option<BoolTensor<B>> {
        let lens = self.lens.as_ref()?;
        if lens.iter().all(|&len| step < len) {
            return None;
        }
        let batch = lens.len();
        let flags = lens.iter().map(|&len| step >= len).collect();
        let padding = upload::<B>(flags, [batch, 1], &like.device());
        Some(B::bool_expand(padding, [batch, hidden_size].into()))
    }
}

/// The sizes of a layer.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) count: usize,
    pub(super) hidden_size: usize,
}

impl Sizes {
    pub(super) fn of<B: Backend>(inputs: &RecurrentInputs<B>) -> Self {
        let [batch, count, _] = inputs.gates.shape().dims();
        let [hidden_size, _] = inputs.hidden_weight.shape().dims();
        Self {
            batch,
            count,
            hidden_size,
        }
    }

    /// `count` equal parts of the columns, `[rows, hidden_size]` each.
    pub(super) fn columns<B: Backend>(
        self,
        count: usize,
        tensor: &FloatTensor<B>,
        rows: usize,
    ) -> Vec<FloatTensor<B>> {
        let size = self.hidden_size;
        (0..count)
            .map(|index| {
                part::<B>(
                    tensor,
                    &[0..rows, index * size..(index + 1) * size],
                    [rows, size],
                )
            })
            .collect()
    }

    /// The gates of a step, separated, `[batch, hidden_size]` each.
    pub(super) fn step_gates<B: Backend>(
        self,
        cell: CellKind,
        gates: &FloatTensor<B>,
        step: usize,
    ) -> Vec<FloatTensor<B>> {
        let width = cell.gates() * self.hidden_size;
        let gates = part::<B>(
            gates,
            &[0..self.batch, step..step + 1, 0..width],
            [self.batch, width],
        );
        self.columns::<B>(cell.gates(), &gates, self.batch)
    }

    /// `[batch, 1, ..]`
    pub(super) fn with_step_axis<B: Backend>(self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        let [batch, size] = tensor.shape().dims();
        B::float_reshape(tensor, [batch, 1, size].into())
    }
}

/// A part of a tensor, as a matrix.
pub(super) fn part<B: Backend>(
    tensor: &FloatTensor<B>,
    ranges: &[std::ops::Range<usize>],
    shape: [usize; 2],
) -> FloatTensor<B> {
    let slices: Vec<Slice> = ranges.iter().cloned().map(Slice::from).collect();
    B::float_reshape(B::float_slice(tensor.clone(), &slices), shape.into())
}
