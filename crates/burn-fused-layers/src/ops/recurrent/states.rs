//! Reading the states of a recurrent layer, and their gradients, which readers deposit for the layer's backward pass;
//! see [`deferred_gradients`](crate::harness::deferred_gradients).

#[cfg(feature = "autodiff")]
use std::marker::PhantomData;

#[cfg(feature = "autodiff")]
use burn::backend::Autodiff;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Slice};
#[cfg(feature = "autodiff")]
use burn_autodiff::{
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

use super::RecurrentInputs;
use crate::harness::kernel::Asked;
#[cfg(feature = "autodiff")]
use crate::harness::{
    deferred_gradients::{GradientSlot, marker},
    differentiate::pass_of,
};
#[cfg(feature = "autodiff")]
use crate::paths;

/// The steps at which a state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepsRead {
    /// Every step.
    All,
    /// The last step.
    Last {
        /// The index of the last step.
        step: usize,
    },
}

/// The part that is read, `[1, batch, steps, hidden_size]`.
pub(crate) fn read<B: Backend>(
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

/// [`read`] in training, where the gradient may be deposited in `slot`.
#[cfg(feature = "autodiff")]
pub(crate) fn read_trained<B: Backend, C: CheckpointStrategy>(
    states: FloatTensor<Autodiff<B, C>>,
    index: usize,
    steps: StepsRead,
    slot: GradientSlot,
) -> FloatTensor<Autodiff<B, C>> {
    if !(paths::defers() && slot.is_of(states.id().value)) {
        return read::<Autodiff<B, C>>(states, index, steps);
    }
    let (states, node) = states.into_parts();
    let state = read::<B>(states, index, steps);
    let prepared = ReadStateGradient::<B>(PhantomData).prepare::<C>([node]);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((index, steps, slot), state),
        OpsKind::UnTracked(prep) => prep.finish(state),
    }
}

/// The gradient of a recurrent layer's state that was read, deposited for the layer's backward pass.
#[cfg(feature = "autodiff")]
#[derive(Debug)]
struct ReadStateGradient<B>(PhantomData<fn() -> B>);

#[cfg(feature = "autodiff")]
impl<B: Backend> Backward<B, 1> for ReadStateGradient<B> {
    type State = (usize, StepsRead, GradientSlot);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let ([Some(layer)], (index, steps, slot)) = (ops.parents, ops.state) else {
            return;
        };
        let pass = pass_of::<B>(grads, &gradient);
        grads.register::<B>(layer.id, marker::<B, 4>(&gradient));
        let deposit = StateDeposit::<B> {
            index,
            steps,
            gradient,
        };
        slot.deposit(pass, layer.id.value, deposit);
    }
}

/// A reader's gradient of what it read.
#[derive(Debug)]
pub(crate) struct StateDeposit<B: Backend> {
    pub(crate) index: usize,
    pub(crate) steps: StepsRead,
    /// `[1, batch, steps, hidden_size]`
    pub(crate) gradient: FloatTensor<B>,
}

/// The gradient of each state, absent if nothing depends on it.
pub(crate) struct StateGradients<B: Backend> {
    /// The gradient of the states after each step, `[1, batch, steps, hidden_size]`.
    pub(crate) of_steps: Vec<Option<FloatTensor<B>>>,
    /// The gradient of the state after the last step, `[1, batch, 1, hidden_size]`, to be added to `of_steps`.
    pub(crate) last: Vec<Option<FloatTensor<B>>>,
}

impl<B: Backend> StateGradients<B> {
    /// The gradients, from that registered for the states (a marker, unless all are read) and the readers' deposits.
    pub(crate) fn new(
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
            let of_state = |index| Some(read::<B>(gradient.clone(), index, StepsRead::All));
            gradients.of_steps = (0..count).map(of_state).collect();
        } else {
            let (got, marker) = (gradient.shape(), Shape::from([1; 4]));
            assert!(
                got == marker,
                "gradient of states expected {:?}, or a marker {marker:?}, got {got:?}",
                states.shape()
            );
        }
        let take = |(pass, node)| inputs.reads.take::<StateDeposit<B>>(pass, node);
        for deposit in asked.taker.map(take).into_iter().flatten() {
            let sum = match deposit.steps {
                StepsRead::All => &mut gradients.of_steps[deposit.index],
                StepsRead::Last { .. } => &mut gradients.last[deposit.index],
            };
            *sum = Some(match sum.take() {
                Some(sum) => B::float_add(sum, deposit.gradient),
                None => deposit.gradient,
            });
        }
        gradients
    }
}
