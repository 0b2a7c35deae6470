//! Parameters of `torch.nn.GRU` and `torch.nn.LSTM`, and of their cells.

use std::path::Path;

use burn::nn::Linear;
use burn_fused_layers::recurrent::{Recurrent, RecurrentLayer};

use crate::Reason;
use crate::state_dict::{Place, StateDict};
use crate::{ImportError, read_file};

/// Loads a PyTorch state dict of `torch.nn.GRU` or `torch.nn.LSTM` into `recurrent`: `weight_ih_l0`, `weight_hh_l0`,
/// `bias_ih_l0`, `bias_hh_l0`, and the same for the other layers and the other direction (`weight_ih_l0_reverse`, ..).
///
/// A `torch.nn.GRUCell` or `torch.nn.LSTMCell` (`weight_ih`, ..) counts as a layer, and a list of cells (`0.weight_ih`,
/// `1.weight_ih`, ..) as several.
///
/// `prefix` precedes these names in the file: `""` for a state dict of the layers alone. From a file without biases
/// (`bias=False`), layers get none.
///
/// # Errors
/// If the file is missing or malformed, a tensor is missing, has an unsupported type or another shape than `recurrent`
/// was configured for, the file has layers, a direction, biases or projections (`proj_size`) that `recurrent` does not
/// have, `recurrent` has layers or a direction that the file does not have, or its cells differ from PyTorch's.
///
/// ```no_run
/// use attention_import::load_recurrent;
/// use burn_fused_layers::recurrent::{CellKind, RecurrentConfig};
/// use burn::prelude::*;
///
/// let config = RecurrentConfig::new(CellKind::Gru, 64, 128).with_layers(2).with_bidirectional(true);
/// let encoder = load_recurrent(config.init(&Device::flex()), "model.pt", "encoder.rnn.")?;
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_recurrent(
    recurrent: Recurrent,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<Recurrent, ImportError> {
    read_file(path, prefix, |file| load(recurrent, file))
}

fn load(recurrent: Recurrent, file: &StateDict) -> Result<Recurrent, Reason> {
    let mut layers = recurrent.layers.iter().chain(&recurrent.reversed);
    if layers.any(|layer| layer.peepholes.is_some() || !layer.reset_after) {
        let got = "peepholes or a reset before the product";
        return Err(format!("expected layers of PyTorch's cells, got {got}").into());
    }
    let spelling = spelling_of(file)?;
    refuse_others(spelling, &recurrent, file)?;
    let reason = "projections of the output are not supported";
    file.refuse("weight_hr_l0", reason)?;
    // With `bias=False` no layer has a bias, so results stay those that PyTorch trained.
    let is_bias = |name: &str| {
        let own = name.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        own.starts_with("bias_ih") || own.starts_with("bias_hh")
    };
    let has_biases = file.names().any(is_bias);
    let direction = |layers: Vec<RecurrentLayer>, suffix: &str| {
        let layers = layers.into_iter().enumerate();
        let layers = layers.map(|(index, layer)| {
            let load = |mut linear: Linear, of: &str| {
                linear.bias = linear.bias.filter(|_| has_biases);
                let name = |kind| name(spelling, &format!("{kind}_{of}"), index, suffix);
                let places = ["weight", "bias"].map(|kind| Place::whole(name(kind)));
                file.linear(linear, places)
            };
            Ok::<_, Reason>(RecurrentLayer {
                input: load(layer.input, "ih")?,
                hidden: load(layer.hidden, "hh")?,
                ..layer
            })
        });
        layers.collect::<Result<Vec<_>, _>>()
    };
    Ok(Recurrent {
        layers: direction(recurrent.layers, "")?,
        reversed: direction(recurrent.reversed, "_reverse")?,
        dropout: recurrent.dropout,
    })
}

/// The spelling of a layer's tensors, with its number for `#`: in `nn.GRU` and `nn.LSTM`, with a suffix for the other
/// direction; in a cell; in a list of cells.
const LAYERS: &str = "@_l#";
const CELL: &str = "@";
const CELLS: &str = "#.@";

fn name(spelling: &str, kind: &str, layer: usize, direction: &str) -> String {
    let name = spelling.replace('@', kind).replace('#', &layer.to_string());
    format!("{name}{direction}")
}

/// # Errors
/// If the file has no first layer.
fn spelling_of(file: &StateDict) -> Result<&'static str, Reason> {
    let is_there = |spelling: &&str| file.contains(&name(spelling, "weight_ih", 0, ""));
    if let Some(found) = [LAYERS, CELL, CELLS].into_iter().find(is_there) {
        return Ok(found);
    }
    // No name in a file of layers ends like this.
    let nearest = match file.all_names().any(|name| name.ends_with("weight_ih")) {
        true => CELL,
        false => LAYERS,
    };
    let first = file.shape(&name(nearest, "weight_ih", 0, ""));
    first.map(|_| nearest)
}

/// # Errors
/// If the file has more layers or directions than `recurrent`, or has cells, which read in one direction, and
/// `recurrent` reads in both.
fn refuse_others(spelling: &str, recurrent: &Recurrent, file: &StateDict) -> Result<(), Reason> {
    let count = recurrent.layers.len();
    let is_of_both = !recurrent.reversed.is_empty();
    if spelling == CELL && count > 1 {
        let cell = file.full("weight_ih");
        return Err(format!("expected {count} layers, got one cell, `{cell}`").into());
    }
    if spelling != LAYERS && is_of_both {
        return Err("expected layers that read in both directions, got cells".into());
    }
    if spelling != CELL {
        let reason = format!("the number of layers is {count}");
        file.refuse(&name(spelling, "weight_ih", count, ""), &reason)?;
    }
    match is_of_both {
        true => Ok(()),
        false => file.refuse("weight_ih_l0_reverse", "the layers read in one direction"),
    }
}
