//! The parameters of Burn's recurrent layers, copied; copies require gradients if Burn's do.

use burn::module::{Param, ParamId};
use burn::nn::activation::Activation;
use burn::nn::gru::{BiGru, Gru};
use burn::nn::{BiLstm, GateController, Linear, Lstm};
use burn::tensor::Tensor;
use thiserror::Error;

use super::stack::no_dropout;
use super::{CellKind, Recurrent, RecurrentLayer};
use crate::harness::parameter::{is_reparameterized, value};

/// A layer of Burn that computes something no [`RecurrentLayer`] does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Burn's {layer} expected {expected}")]
pub struct UnsupportedLayer {
    layer: &'static str,
    expected: &'static str,
}

/// Checks conditions on a layer, each with a text for the error.
fn check(layer: &'static str, conditions: &[(bool, &'static str)]) -> Result<(), UnsupportedLayer> {
    match conditions.iter().find(|(holds, _)| !holds) {
        Some(&(_, expected)) => Err(UnsupportedLayer { layer, expected }),
        None => Ok(()),
    }
}

/// Converts a GRU of Burn with sigmoid and tanh, without `clip` and without LoRA, with any `reset_after`.
impl TryFrom<&Gru> for RecurrentLayer {
    type Error = UnsupportedLayer;

    fn try_from(gru: &Gru) -> Result<Self, UnsupportedLayer> {
        let conditions = [
            (is_sigmoid(&gru.gate_activation), "sigmoid gates"),
            (is_tanh(&gru.hidden_activation), "tanh of the new state"),
            (gru.clip.is_none(), "no `clip`"),
        ];
        check("Gru", &conditions)?;
        let gates = [&gru.reset_gate, &gru.update_gate, &gru.new_gate];
        Ok(RecurrentLayer {
            reset_after: gru.reset_after,
            ..of_gates("Gru", CellKind::Gru, &gates)?
        })
    }
}

/// Converts an LSTM of Burn with separate gates, sigmoid and tanh, that reads forward, without `clip` and without LoRA.
/// Inputs are `[batch, steps, ..]`, even if its `batch_first` is false.
impl TryFrom<&Lstm> for RecurrentLayer {
    type Error = UnsupportedLayer;

    fn try_from(lstm: &Lstm) -> Result<Self, UnsupportedLayer> {
        check("Lstm", &[(!lstm.reverse, "not to be reversed")])?;
        of_lstm(lstm)
    }
}

/// As for a single direction. Inputs are `[batch, steps, ..]`, even if its `batch_first` is false.
impl TryFrom<&BiGru> for Recurrent {
    type Error = UnsupportedLayer;

    fn try_from(gru: &BiGru) -> Result<Self, UnsupportedLayer> {
        Ok(Recurrent {
            layers: vec![(&gru.forward).try_into()?],
            reversed: vec![(&gru.reverse).try_into()?],
            dropout: no_dropout(),
        })
    }
}

/// As for a single direction. Inputs are `[batch, steps, ..]`, even if its `batch_first` is false.
impl TryFrom<&BiLstm> for Recurrent {
    type Error = UnsupportedLayer;

    fn try_from(lstm: &BiLstm) -> Result<Self, UnsupportedLayer> {
        Ok(Recurrent {
            layers: vec![(&lstm.forward).try_into()?],
            reversed: vec![of_lstm(&lstm.reverse)?],
            dropout: no_dropout(),
        })
    }
}

fn is_sigmoid(activation: &Activation) -> bool {
    matches!(activation, Activation::Sigmoid(_))
}

fn is_tanh(activation: &Activation) -> bool {
    matches!(activation, Activation::Tanh(_))
}

fn of_lstm(lstm: &Lstm) -> Result<RecurrentLayer, UnsupportedLayer> {
    let conditions = [
        (is_sigmoid(&lstm.gate_activation), "sigmoid gates"),
        (is_tanh(&lstm.cell_activation), "tanh of the new cell"),
        (is_tanh(&lstm.hidden_activation), "tanh of the cell"),
        (lstm.clip.is_none(), "no `clip`"),
    ];
    check("Lstm", &conditions)?;
    let forget_gate = lstm.forget_gate.as_ref().filter(|_| !lstm.input_forget);
    let forget_gate = forget_gate.ok_or(UnsupportedLayer {
        layer: "Lstm",
        expected: "a forget gate of its own, not `input_forget`",
    })?;
    let gates = [
        &lstm.input_gate,
        forget_gate,
        &lstm.cell_gate,
        &lstm.output_gate,
    ];
    of_gates("Lstm", CellKind::Lstm, &gates)
}

/// The layer with these gates, concatenated in this order.
fn of_gates(
    name: &'static str,
    kind: CellKind,
    gates: &[&GateController],
) -> Result<RecurrentLayer, UnsupportedLayer> {
    let is_plain = !gates.iter().any(|gate| is_reparameterized(*gate));
    let expected = "no LoRA or other reparameterization: `materialize` merges it";
    check(name, &[(is_plain, expected)])?;
    let side_by_side = |layer: fn(&GateController) -> &Linear| {
        let layers = || gates.iter().map(|gate| layer(gate));
        let weights: Vec<_> = layers().map(|layer| &layer.weight).collect();
        let biases: Vec<_> = layers().filter_map(|layer| layer.bias.as_ref()).collect();
        let is_uniform = biases.is_empty() || biases.len() == weights.len();
        check(name, &[(is_uniform, "a bias in all gates or in none")])?;
        let bias = (!biases.is_empty()).then(|| joined(name, &biases, 0));
        Ok(Linear {
            weight: joined(name, &weights, 1)?,
            bias: bias.transpose()?,
        })
    };
    Ok(RecurrentLayer {
        input: side_by_side(|gate| &gate.input_transform)?,
        hidden: side_by_side(|gate| &gate.hidden_transform)?,
        peepholes: None,
        kind,
        reset_after: true,
    })
}

/// The parameters of the gates, concatenated, requiring gradients if they do.
fn joined<const D: usize>(
    name: &'static str,
    parameters: &[&Param<Tensor<D>>],
    axis: usize,
) -> Result<Param<Tensor<D>>, UnsupportedLayer> {
    let first = parameters[0];
    let requires_grad = first.is_require_grad();
    let mut all = parameters.iter();
    let is_uniform = all.all(|parameter| parameter.is_require_grad() == requires_grad);
    let expected = "all gates or none to require gradients of a parameter";
    check(name, &[(is_uniform, expected)])?;
    let values = parameters.iter().map(|parameter| value(parameter));
    // Detached only after the concatenation: in Burn 0.22.1, `detach` of a tensor that requires gradients still
    // requires them, and the result of an operation on it is no leaf.
    let value = Tensor::cat(values.collect(), axis).detach();
    // Only the mapper knows on every device whether the parameter is trained; how Burn loads and saves it does not
    // matter here.
    let (_, _, mapper) = Param::clone(first).consume();
    let value = value.set_require_grad(requires_grad);
    let joined = Param::from_mapped_value(ParamId::new(), value, mapper);
    Ok(joined.load_mapper(|value| value).save_mapper(|value| value))
}
