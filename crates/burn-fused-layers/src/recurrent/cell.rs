//! A recurrent layer that is run step by step.

use burn::tensor::{DType, Tensor};

use super::run::{Hidden, joined};
use super::{CellKind, RecurrentLayer, RecurrentState, Steps};
use crate::harness::parameter::value;
use crate::harness::wide::widened;

/// A [`RecurrentLayer`] that is run step by step, if a step's input depends on the previous step, as in a decoder.
///
/// On the CPU, in `f32` and `f64`, the weight is packed once for all steps, and its gradient is a single product.
///
/// ```
/// use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, RecurrentState};
/// use burn::tensor::{Device, Distribution, Tensor};
///
/// let device = Device::flex();
/// let layer = &RecurrentConfig::new(CellKind::Gru, 5, 7).init(&device).layers[0];
/// let cell = layer.cell();
/// let mut state = RecurrentState::of_hidden(Tensor::zeros([2, 7], &device));
/// for _ in 0..3 {
///     let input = Tensor::<3>::random([2, 1, 5], Distribution::Default, &device);
///     state = cell.forward(layer.gates(input).squeeze_dim(1), state);
/// }
/// assert_eq!(state.hidden.dims(), [2, 7]);
/// ```
#[derive(Clone, Debug)]
pub struct RecurrentCell {
    kind: CellKind,
    /// The type of gates and outputs.
    dtype: DType,
    /// The hidden projection, not in half precision.
    hidden: Hidden,
}

impl RecurrentCell {
    pub(super) fn new(layer: &RecurrentLayer) -> Self {
        Self {
            kind: layer.kind,
            dtype: value(&layer.hidden.weight).dtype(),
            hidden: layer.read_hidden().for_many_calls(),
        }
    }

    /// The state after a step, from the input projection of the [`gates`](RecurrentLayer::gates) and the state before.
    ///
    /// # Shapes
    /// - gates `[batch, gates * hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together, or the state belongs to another kind of cell.
    pub fn forward(&self, gates: Tensor<2>, state: RecurrentState) -> RecurrentState {
        if state.hidden.dims()[0] == 0 {
            return state; // No examples. Burn's views take an axis of 0 for another one's.
        }
        let (dtype, own) = (gates.dtype(), self.dtype);
        assert!(
            dtype == own,
            "recurrent layer: hidden weight expected of type {dtype:?}, as the gates, got {own:?}"
        );
        let states = joined(state.parts(self.kind));
        let gates = widened(gates).unsqueeze_dim::<3>(1);
        let hidden = self.hidden.clone();
        let states = hidden.run(gates, Some(widened(states)), &Steps::all());
        RecurrentState {
            hidden: states.last(0).cast(dtype),
            cell: (self.kind == CellKind::Lstm).then(|| states.last(1)),
        }
    }
}
