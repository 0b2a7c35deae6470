//! Recurrent layers on top of each other.

use std::iter::once;

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};

use super::layer::initializer;
use super::padding::without_padding;
use super::{CellKind, RecurrentLayer, RecurrentState, Steps};
use crate::dropout::dropout_beside;
use crate::harness::checks::assert_positive;

/// Configuration of [`Recurrent`] layers.
///
/// ```
/// use burn_fused_layers::recurrent::{CellKind, RecurrentConfig};
/// use burn::tensor::Device;
///
/// let config = RecurrentConfig::new(CellKind::Lstm, 5, 7).with_bidirectional(true);
/// let lstm = config.init(&Device::flex());
/// assert_eq!(lstm.layers[0].hidden.weight.dims(), [7, 28]); // the gates i, f, g and o
/// ```
#[derive(Config, Debug)]
pub struct RecurrentConfig {
    /// The computation of a step.
    pub cell: CellKind,
    /// The feature dimension of an input.
    pub input_size: usize,
    /// The feature dimension of a state, of each direction.
    pub hidden_size: usize,
    /// The number of layers.
    #[config(default = 1)]
    pub layers: usize,
    /// Whether each layer reads in both directions.
    #[config(default = false)]
    pub bidirectional: bool,
    /// The probability to drop, while training, an output of a layer that feeds another layer.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Whether the reset gate of a GRU multiplies after the product, as in PyTorch, or before; see [`CellKind::Gru`].
    #[config(default = true)]
    pub reset_after: bool,
    /// Whether an LSTM has peepholes; see [`CellKind::Lstm`].
    #[config(default = false)]
    pub peepholes: bool,
}

impl RecurrentConfig {
    /// Layers with new random parameters, uniform in `±1 / sqrt(hidden_size)` as in PyTorch.
    ///
    /// # Panics
    /// If a size is 0, `dropout` is not in `[0, 1)`, `reset_after` is false except for a GRU, or `peepholes` is true
    /// except for an LSTM.
    pub fn init(&self, device: &Device) -> Recurrent {
        let sizes = [
            ("input_size", self.input_size),
            ("hidden_size", self.hidden_size),
            ("layers", self.layers),
        ];
        assert_positive("RecurrentConfig", &sizes);
        assert!(
            (0.0..1.0).contains(&self.dropout),
            "RecurrentConfig: dropout expected in [0, 1), got {}",
            self.dropout
        );
        let cell = self.cell;
        assert!(
            self.reset_after || cell == CellKind::Gru,
            "RecurrentConfig: `reset_after` is for a Gru, expected true for a {cell:?}, got false"
        );
        assert!(
            !self.peepholes || cell == CellKind::Lstm,
            "RecurrentConfig: `peepholes` is for a Lstm, expected false for a {cell:?}, got true"
        );
        let directions = if self.bidirectional { 2 } else { 1 };
        let layer = |index: usize| {
            let input_size = match index {
                0 => self.input_size,
                _ => directions * self.hidden_size,
            };
            let (cell, size) = (self.cell, self.hidden_size);
            let layer = RecurrentLayer::init(cell, [input_size, size], device);
            let peepholes = || initializer(size).init([3, size], device);
            RecurrentLayer {
                peepholes: self.peepholes.then(peepholes),
                reset_after: self.reset_after,
                ..layer
            }
        };
        let reversed = if self.bidirectional { self.layers } else { 0 };
        Recurrent {
            layers: (0..self.layers).map(layer).collect(),
            reversed: (0..reversed).map(layer).collect(),
            dropout: DropoutConfig::new(self.dropout).init(),
        }
    }
}

/// Recurrent layers on top of each other, in one direction or both: PyTorch's `torch.nn.GRU` and `torch.nn.LSTM`.
///
/// The parameters are PyTorch's, with the gates concatenated in the same order; `attention_import::load_recurrent`
/// reads them. `try_from` takes Burn's `BiGru` and `BiLstm`; for `Gru` and `Lstm`, see [`RecurrentLayer`].
#[derive(Module, Debug)]
pub struct Recurrent {
    /// The layers that read from the first step to the last.
    pub layers: Vec<RecurrentLayer>,
    /// The layers that read from the last step to the first; empty for a single direction.
    pub reversed: Vec<RecurrentLayer>,
    /// Dropout between the layers.
    pub dropout: Dropout,
}

impl Recurrent {
    /// The outputs of the top layer after each step, and the final state of each layer; started from `initial`, or 0.
    ///
    /// After the last step of an example its state does not change, and no gradient depends on the input there. Outputs
    /// after it are arbitrary. States come in PyTorch's order: first layer, first layer reversed, second layer, ...
    /// With [reversed](Steps::reversed) steps each direction reads the other way.
    ///
    /// # Shapes
    /// - input `[batch, steps, input_size]`, result `[batch, steps, directions * hidden_size]`
    ///
    /// # Panics
    /// If the shapes do not fit together, a length is beyond the steps, a state belongs to another kind of cell, or the
    /// number of initial states is not one per layer and direction.
    pub fn forward(
        &self,
        input: Tensor<3>,
        initial: Option<Vec<RecurrentState>>,
        steps: &Steps,
    ) -> (Tensor<3>, Vec<RecurrentState>) {
        let input = without_padding(input, steps);
        self.forward_gates(|layer| layer.gates(input.clone()), initial, steps)
    }

    /// [`forward`](Self::forward) from the input projections of the first layer's [`gates`](RecurrentLayer::gates), in
    /// each direction, which a caller may get more cheaply: for a small vocabulary, from a table of projections.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_gates(
        &self,
        gates: impl Fn(&RecurrentLayer) -> Tensor<3>,
        initial: Option<Vec<RecurrentState>>,
        steps: &Steps,
    ) -> (Tensor<3>, Vec<RecurrentState>) {
        let expected = self.layers.len() + self.reversed.len();
        if let Some(states) = &initial {
            assert!(
                states.len() == expected,
                "Recurrent: initial states expected {expected}, one for each layer and direction, got {}",
                states.len()
            );
        }
        let mut initial = initial.into_iter().flatten();
        let mut last = Vec::with_capacity(expected);
        let mut below: Option<Tensor<3>> = None;
        for (index, layer) in self.layers.iter().enumerate() {
            let reversed = self.reversed.get(index);
            let weights = once(layer).chain(reversed).map(|layer| &layer.input.weight);
            let below_dropped = below.take().map(|outputs| {
                let devices = weights.map(|weight| weight.device());
                dropout_beside(&self.dropout, outputs, devices)
            });
            let reversed = reversed.map(|layer| (layer, steps.clone().reversed()));
            let mut outputs = Vec::with_capacity(2);
            for (layer, steps) in once((layer, steps.clone())).chain(reversed) {
                let gates = match &below_dropped {
                    Some(outputs) => layer.gates(outputs.clone()),
                    None => gates(layer),
                };
                let (states, end) = layer.forward_gates(gates, initial.next(), &steps);
                outputs.push(states);
                last.push(end);
            }
            below = Some(match outputs.len() {
                1 => outputs.remove(0),
                _ => Tensor::cat(outputs, 2),
            });
        }
        let outputs = below.expect("a configuration has at least one layer");
        (outputs, last)
    }
}

impl From<RecurrentLayer> for Recurrent {
    fn from(layer: RecurrentLayer) -> Self {
        Self {
            layers: vec![layer],
            reversed: Vec::new(),
            dropout: no_dropout(),
        }
    }
}

pub(super) fn no_dropout() -> Dropout {
    DropoutConfig::new(0.0).init()
}
