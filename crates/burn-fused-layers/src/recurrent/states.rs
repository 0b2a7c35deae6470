//! Recurrent layers over whole sequences, and the states that they leave.
//!
//! Each state is read separately, for all steps or for the last. In Burn, each reader's gradient of a view is a tensor
//! of the whole, padded with zeros, which is then added in full. Here a reader deposits the gradient of what it read,
//! and the layer's backward pass takes the deposits; see [`deferred_gradients`](crate::harness::deferred_gradients).

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use super::variants::Variant;
use crate::harness::checks::{Argument, assert_together};
use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::shared_weight::SharedWeight;
use crate::ops::{CellKind, LayerOps, OPERATIONS, RecurrentInputs, Steps, StepsRead};
use crate::paths;

/// The states after each step; after the last step of an example they do not change. Half precision is computed in
/// `f32`. `shared` belongs to the hidden weight.
///
/// # Shapes
/// - gates `[batch, steps, gates * hidden_size]`
/// - hidden_weight `[hidden_size, gates * hidden_size]`, hidden_bias `[gates * hidden_size]`
/// - initial `[states, batch, hidden_size]`
///
/// # Panics
/// If shapes, types or devices do not fit together, or a length is beyond the steps.
pub fn recurrent(
    cell: CellKind,
    gates: Tensor<3>,
    hidden: (Tensor<2>, Tensor<1>),
    shared: Option<SharedWeight>,
    initial: Tensor<3>,
    steps: Steps,
) -> States {
    of_cell((cell, None), gates, hidden, shared, initial, steps)
}

/// [`recurrent`] with a variant of the cell, if there is one.
///
/// # Panics
/// As [`recurrent`].
pub(super) fn of_cell(
    (cell, variant): (CellKind, Option<Variant>),
    gates: Tensor<3>,
    hidden: (Tensor<2>, Tensor<1>),
    shared: Option<SharedWeight>,
    initial: Tensor<3>,
    steps: Steps,
) -> States {
    let [batch, count, _] = gates.dims();
    let (weight, bias) = hidden;
    let [size, _] = weight.dims();
    let (states, width) = (cell.states(), cell.gates() * size);
    let assert_dims = |name: &str, got: &[usize], expected: &[usize]| {
        assert!(
            got == expected,
            "recurrent layer: {name} expected {expected:?}, got {got:?}"
        );
    };
    assert_dims("gates", &gates.dims(), &[batch, count, width]);
    assert_dims("hidden weight", &weight.dims(), &[size, width]);
    assert_dims("hidden bias", &bias.dims(), &[width]);
    assert_dims("initial state", &initial.dims(), &[states, batch, size]);
    let peepholes = match &variant {
        Some(Variant::Peepholes(weights)) => Some(weights),
        _ => None,
    };
    if let Some(weights) = peepholes {
        assert_dims("peepholes", &weights.dims(), &[3, size]);
    }
    let dtype = gates.dtype();
    let mut others = vec![
        Argument::floats("hidden weight", &weight),
        Argument::floats("hidden bias", &bias),
        Argument::floats_or_wide("initial state", &initial, dtype),
    ];
    others.extend(peepholes.map(|weights| Argument::floats("peepholes", weights)));
    assert_together("recurrent layer", Argument::floats("gates", &gates), others);
    if let Some(lens) = &steps.lens {
        let longest = lens.iter().copied().max().unwrap_or(0);
        assert!(
            lens.len() == batch && longest <= count,
            "recurrent layer: lens expected {batch} of at most {count}, got {lens:?}"
        );
    }
    let last = count.saturating_sub(1);
    let last = if steps.is_reversed { 0 } else { last };
    let slot = GradientSlot::default();
    let all = if batch * count * size == 0 {
        Tensor::zeros([states, batch, count, size], (&gates.device(), dtype))
    } else if matches!(dtype, DType::F16 | DType::BF16) {
        let variant = variant.map(|variant| variant.cast(DType::F32));
        let wide = of_cell(
            (cell, variant),
            gates.cast(DType::F32),
            (weight.cast(DType::F32), bias.cast(DType::F32)),
            shared,
            initial.cast(DType::F32),
            steps,
        );
        wide.all.cast(dtype)
    } else if let Some(variant) = variant {
        let like = gates.clone().into_dispatch();
        let operation = OPERATIONS.named("recurrent");
        paths::chosen::<Dispatch, Dispatch, ()>(operation, None, &like, |_, _, _| false);
        variant.states(gates, (weight, bias), initial, &steps)
    } else {
        Tensor::from_dispatch(<Dispatch as LayerOps>::recurrent(RecurrentInputs {
            gates: gates.into_dispatch(),
            hidden_weight: weight.into_dispatch(),
            hidden_bias: bias.into_dispatch(),
            initial: initial.into_dispatch(),
            cell,
            steps: Arc::new(steps),
            shared,
            reads: slot.clone(),
        }))
    };
    States { all, last, slot }
}

/// The states of a recurrent layer after each step, made by [`recurrent`].
#[derive(Clone, Debug)]
pub struct States {
    /// `[states, batch, steps, hidden_size]`
    all: Tensor<4>,
    /// The index of the last step.
    last: usize,
    slot: GradientSlot,
}

impl States {
    /// All states, `[states, batch, steps, hidden_size]`.
    pub fn all(self) -> Tensor<4> {
        self.all
    }

    /// One of the states after each step, `[batch, steps, hidden_size]`: 0 is h, and 1 the cell c of an LSTM.
    ///
    /// # Panics
    /// If there is no such state.
    pub fn of_steps(&self, index: usize) -> Tensor<3> {
        let [_, batch, count, size] = self.all.dims();
        self.read(index, StepsRead::All, [batch, count, size])
    }

    /// One of the states after the last step, `[batch, hidden_size]`. Padding repeats it.
    ///
    /// # Panics
    /// If there is no such state, or there are no steps.
    pub fn last(&self, index: usize) -> Tensor<2> {
        let [_, batch, count, size] = self.all.dims();
        assert!(
            count > 0,
            "states: the last expected of some steps, got none"
        );
        let step = self.last;
        self.read(index, StepsRead::Last { step }, [batch, size])
    }

    fn read<const D: usize>(&self, index: usize, steps: StepsRead, shape: [usize; D]) -> Tensor<D> {
        let [states, _, count, _] = self.all.dims();
        assert!(
            index < states,
            "states: expected an index below {states}, got {index}"
        );
        if shape.contains(&0) {
            // Burn's views mistake an axis of size 0 for a placeholder.
            return Tensor::zeros(shape, (&self.all.device(), self.all.dtype()));
        }
        if states * count == 1 {
            // This is all there is, so Burn's own view costs nothing.
            return self.all.clone().reshape(shape);
        }
        let (all, slot) = (self.all.clone().into_dispatch(), self.slot.clone());
        let read = <Dispatch as LayerOps>::read_state(all, index, steps, slot);
        Tensor::<4>::from_dispatch(read).reshape(shape)
    }
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// Reads of open slots are deposited; the gradient of others is a view's.
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
