//! The states of a recurrent layer, as they are read: each for itself, of all steps or of the last.
//!
//! Burn's gradient of a view is a tensor of the whole with zeros around, for each reader, and an addition of all of it.
//! Here a reader deposits the gradient of what it read, and the layer's backward pass takes these; see
//! [`deferred_gradients`](crate::ops::deferred_gradients).

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, TensorMetadata};
use burn::tensor::{Shape, Slice, Tensor};

use super::RecurrentInputs;
use crate::ops::kernels::Asked;
use crate::ops::{AttentionOps, GradientSlot};

/// The states of a recurrent layer after each step, made by [`recurrent`](super::recurrent).
#[derive(Clone, Debug)]
pub struct States {
    /// `[states, batch, steps, hidden_size]`
    pub(super) all: Tensor<4>,
    pub(super) last_step: usize,
    pub(super) slot: GradientSlot,
}

impl States {
    /// All of them, `[states, batch, steps, hidden_size]`.
    pub fn all(self) -> Tensor<4> {
        self.all
    }

    /// One of them after each step, `[batch, steps, hidden_size]`: 0 is h, and 1 the cell c of an LSTM.
    ///
    /// # Panics
    /// If there is no such state.
    pub fn of_steps(&self, index: usize) -> Tensor<3> {
        let [_, batch, count, size] = self.all.dims();
        self.read(index, StepsRead::All, [batch, count, size])
    }

    /// One of them after the last step, `[batch, hidden_size]`. Padding holds it.
    ///
    /// # Panics
    /// If there is no such state, or no step.
    pub fn last(&self, index: usize) -> Tensor<2> {
        let [_, batch, count, size] = self.all.dims();
        assert!(
            count > 0,
            "states: the last expected of some steps, got none"
        );
        let step = self.last_step;
        self.read(index, StepsRead::Last { step }, [batch, size])
    }

    fn read<const D: usize>(&self, index: usize, steps: StepsRead, shape: [usize; D]) -> Tensor<D> {
        let [states, _, count, _] = self.all.dims();
        assert!(
            index < states,
            "states: expected an index below {states}, got {index}"
        );
        if shape.contains(&0) {
            // Burn's views take an axis of 0 for another one's.
            return Tensor::zeros(shape, (&self.all.device(), self.all.dtype()));
        }
        if states * count == 1 {
            // Nothing but what is read: Burn's own view costs nothing.
            return self.all.clone().reshape(shape);
        }
        let (all, slot) = (self.all.clone().into_dispatch(), self.slot.clone());
        let read = <Dispatch as AttentionOps>::read_state(all, index, steps, slot);
        Tensor::<4>::from_dispatch(read).reshape(shape)
    }
}

/// Of which steps a state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepsRead {
    /// Of all.
    All,
    /// Of the last.
    Last {
        /// Which that is.
        step: usize,
    },
}

/// What is read, `[1, batch, steps, hidden_size]`.
pub(in crate::ops) fn read<B: Backend>(
    states: FloatTensor<B>,
    index: usize,
    steps: StepsRead,
) -> FloatTensor<B> {
    let [number, batch, count, size] = states.shape().dims();
    if number == 1 && (steps == StepsRead::All || count == 1) {
        return states;
    }
    let steps = match steps {
        StepsRead::All => 0..count,
        StepsRead::Last { step } => step..step + 1,
    };
    let ranges = [index..index + 1, 0..batch, steps, 0..size];
    B::float_slice(states, &ranges.map(Slice::from))
}

/// The gradient of what a reader read.
#[derive(Debug)]
pub(in crate::ops) struct StateDeposit<B: Backend> {
    pub(in crate::ops) index: usize,
    pub(in crate::ops) steps: StepsRead,
    /// `[1, batch, steps, hidden_size]`
    pub(in crate::ops) gradient: FloatTensor<B>,
}

/// The gradient of each state, absent where nothing depends on it.
pub(super) struct StateGradients<B: Backend> {
    /// After each step, `[1, batch, steps, hidden_size]`.
    pub(super) of_steps: Vec<Option<FloatTensor<B>>>,
    /// After the last step, to be added to that, `[1, batch, 1, hidden_size]`.
    pub(super) last: Vec<Option<FloatTensor<B>>>,
}

impl<B: Backend> StateGradients<B> {
    /// From what was registered for the states, a marker unless somebody read them all, and what readers deposited.
    pub(super) fn new(
        inputs: &RecurrentInputs<B>,
        states: &FloatTensor<B>,
        gradient: FloatTensor<B>,
        asked: &Asked<4>,
    ) -> Self {
        let count = inputs.cell.states();
        let mut gradients = Self {
            of_steps: vec![None; count],
            last: vec![None; count],
        };
        if gradient.shape() == states.shape() {
            let steps = StepsRead::All;
            for (index, of_steps) in gradients.of_steps.iter_mut().enumerate() {
                *of_steps = Some(read::<B>(gradient.clone(), index, steps));
            }
        } else {
            let (got, marker) = (gradient.shape(), Shape::from([1; 4]));
            assert!(
                got == marker,
                "gradient of states expected {:?}, or a marker {marker:?}, got {got:?}",
                states.shape()
            );
        }
        let take = |(pass, node)| inputs.reads.take::<StateDeposit<B>>(pass, node);
        for StateDeposit {
            index,
            steps,
            gradient,
        } in asked.taker.map(take).into_iter().flatten()
        {
            let sum = match steps {
                StepsRead::All => &mut gradients.of_steps[index],
                StepsRead::Last { .. } => &mut gradients.last[index],
            };
            *sum = Some(match sum.take() {
                Some(sum) => B::float_add(sum, gradient),
                None => gradient,
            });
        }
        gradients
    }
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::ops::{CellKind, Steps, recurrent};

    /// What is read of open slots is deposited; of others the gradient is a view's.
    #[test]
    fn the_slot_is_open_until_the_layers_backward_pass() {
        for (device, is_training) in [(Device::flex(), false), (Device::flex().autodiff(), true)] {
            let ones = |shape: [usize; 3]| Tensor::<3>::ones(shape, &device);
            let gates = ones([2, 3, 12]);
            let gates = if is_training {
                gates.require_grad()
            } else {
                gates
            };
            let hidden = (
                ones([1, 4, 12]).squeeze_dim(0),
                Tensor::zeros([12], &device),
            );
            let starts = ones([1, 2, 4]);
            let states = recurrent(CellKind::Gru, gates, hidden, None, starts, Steps::all());
            assert_eq!(states.slot.is_open(), is_training);
            if is_training {
                states.last(0).sum().backward();
                assert!(!states.slot.is_open());
            }
        }
    }
}
