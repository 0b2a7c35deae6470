//! A recurrent layer for one step after the other.

use burn::tensor::Tensor;

use super::run::{Hidden, joined};
use super::{CellKind, RecurrentLayer, RecurrentState, Steps};

/// A [`RecurrentLayer`] for one step after the other, where a step's input depends on the step before, as in a decoder.
///
/// On the CPU, in `f32` and `f64`, the weight is packed once for all steps, and its gradient is one product of all.
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
    hidden: Hidden,
}

impl RecurrentCell {
    pub(super) fn new(layer: &RecurrentLayer) -> Self {
        Self {
            kind: layer.kind,
            hidden: layer.read_hidden().shared(),
        }
    }

    /// The state after a step, from the input's share of the [`gates`](RecurrentLayer::gates) and the state before.
    ///
    /// # Shapes
    /// - gates `[batch, gates * hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together, or the state is of another kind of cell.
    pub fn forward(&self, gates: Tensor<2>, state: RecurrentState) -> RecurrentState {
        if state.hidden.dims()[0] == 0 {
            return state; // No examples. Burn's views take an axis of 0 for another one's.
        }
        let states = joined(state.parts(self.kind));
        let gates = gates.unsqueeze_dim::<3>(1);
        let hidden = self.hidden.clone();
        let states = hidden.run(gates, Some(states), &Steps::all());
        let parts = (0..self.kind.states()).map(|index| states.last(index));
        RecurrentState::of_parts(parts)
    }
}
