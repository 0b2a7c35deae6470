//! The definition, step by step.

use std::ops::Range;

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Scalar, Slice};

use super::{CellKind, RecurrentInputs, Steps};
use crate::harness::upload::upload;
use crate::ops::linear::rows;

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
    let Sizes { batch, count, size } = sizes;
    let gates = inputs.cell.gates();
    let bias = B::float_reshape(inputs.hidden_bias.clone(), [1, gates * size].into());
    let initial = (0..inputs.cell.states()).map(|n| sizes.initial(inputs, n));
    let mut state: Vec<FloatTensor<B>> = initial.collect();
    let mut states: Vec<Vec<Option<FloatTensor<B>>>> = vec![vec![None; count]; state.len()];
    let mut saved: Vec<Option<FloatTensor<B>>> = vec![None; count];
    for step in inputs.steps.order(count) {
        let projected = sizes.of_step::<B>(gates, &inputs.gates, step);
        let hidden = B::float_matmul(state[0].clone(), inputs.hidden_weight.clone());
        let hidden = B::float_add(hidden, bias.clone());
        let hidden = sizes.columns::<B>(gates, &hidden);
        let (next, values) = cell_step::<B>(inputs.cell, &projected, &hidden, &state);
        let padding = inputs.steps.padding::<B>(step, size, &state[0]);
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
        B::float_reshape(states, [1, batch, count, size].into())
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
    /// The hidden size.
    pub(super) size: usize,
}

impl Sizes {
    pub(super) fn of<B: Backend>(inputs: &RecurrentInputs<B>) -> Self {
        let [batch, count, _] = inputs.gates.shape().dims();
        let [size, _] = inputs.hidden_weight.shape().dims();
        Self { batch, count, size }
    }

    /// A vector of the initial state, `[batch, hidden_size]`.
    pub(super) fn initial<B: Backend>(self, of: &RecurrentInputs<B>, n: usize) -> FloatTensor<B> {
        part::<B>(&of.initial, &[n..n + 1, 0..self.batch, 0..self.size])
    }

    /// `count` equal parts of the columns, `[batch, hidden_size]` each.
    fn columns<B: Backend>(self, count: usize, tensor: &FloatTensor<B>) -> Vec<FloatTensor<B>> {
        let starts = (0..count).map(|index| index * self.size);
        let column = |start| part::<B>(tensor, &[0..self.batch, start..start + self.size]);
        starts.map(column).collect()
    }

    /// The `count` gates or values of a step, separated, `[batch, hidden_size]` each.
    pub(super) fn of_step<B: Backend>(
        self,
        count: usize,
        tensor: &FloatTensor<B>,
        step: usize,
    ) -> Vec<FloatTensor<B>> {
        let ranges = [0..self.batch, step..step + 1, 0..count * self.size];
        self.columns::<B>(count, &part::<B>(tensor, &ranges))
    }

    /// `[batch, 1, ..]`
    pub(super) fn with_step_axis<B: Backend>(self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        let [batch, size] = tensor.shape().dims();
        B::float_reshape(tensor, [batch, 1, size].into())
    }
}

/// A part of a tensor, as a matrix of its rows.
pub(super) fn part<B: Backend>(tensor: &FloatTensor<B>, ranges: &[Range<usize>]) -> FloatTensor<B> {
    let slices: Vec<Slice> = ranges.iter().cloned().map(Slice::from).collect();
    rows::<B>(B::float_slice(tensor.clone(), &slices))
}
