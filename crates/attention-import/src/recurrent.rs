//! Parameters of `torch.nn.GRU` and `torch.nn.LSTM`, and of their cells.

use std::path::Path;

use burn::nn::Linear;
use burn_fused_layers::recurrent::{Recurrent, RecurrentLayer};

use crate::state_dict::{Place, StateDict};
use crate::{ImportError, read_file};

/// Loads a PyTorch state dict of `torch.nn.GRU` or `torch.nn.LSTM` into `recurrent`: `weight_ih_l0`, `weight_hh_l0`,
/// `bias_ih_l0`, `bias_hh_l0`, the same of the other layers, and of the other direction (`weight_ih_l0_reverse`, ..).
///
/// A `torch.nn.GRUCell` or `torch.nn.LSTMCell` (`weight_ih`, ..) is a layer, too, and a list of cells (`0.weight_ih`,
/// `1.weight_ih`, ..) is as many.
///
/// `prefix` is what stands before these names in the file: `""` for a state dict of the layers alone. Layers of a file
/// without biases (`bias=False`) have none.
///
/// # Errors
/// If the file is missing or malformed, a tensor is missing, of a type that cannot be read or of another shape than
/// `recurrent` was configured for, or the file has layers, a direction, biases or projections (`proj_size`) that
/// `recurrent` has not, or `recurrent` has layers or a direction that the file has not, or its cells are none of
/// PyTorch's.
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

fn load(recurrent: Recurrent, file: &StateDict) -> Result<Recurrent, String> {
    let mut layers = recurrent.layers.iter().chain(&recurrent.reversed);
    if layers.any(|layer| layer.peepholes.is_some() || !layer.reset_after) {
        return Err(
            "expected layers of PyTorch's cells, got peepholes or a reset before the product"
                .into(),
        );
    }
    let spelling = Spelling::of(file)?;
    spelling.refuse_others(&recurrent, file)?;
    let reason = "projections of the output are not supported";
    file.refuse("weight_hr_l0", reason)?;
    // With `bias=False` none of the layers has one: they stay what PyTorch trained.
    let is_bias = |name: &str| {
        let own = name.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        own.starts_with("bias_ih") || own.starts_with("bias_hh")
    };
    let has_biases = file.names().any(is_bias);
    let direction = |layers: Vec<RecurrentLayer>, suffix: &str| {
        let layers = layers.into_iter().enumerate();
        let layers = layers.map(|(index, layer)| {
            let load = |linear: Linear, of: &str| {
                let linear = Linear {
                    bias: linear.bias.filter(|_| has_biases),
                    ..linear
                };
                let name = |kind| spelling.name(&format!("{kind}_{of}"), index, suffix);
                file.linear(
                    linear,
                    ["weight", "bias"].map(|kind| Place::whole(name(kind))),
                )
            };
            Ok::<_, String>(RecurrentLayer {
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

/// How the tensors of a layer are called.
#[derive(Clone, Copy)]
enum Spelling {
    /// `weight_ih_l0` of `nn.GRU` and `nn.LSTM`.
    Layers,
    /// `weight_ih` of `nn.GRUCell` and `nn.LSTMCell`.
    Cell,
    /// `0.weight_ih`, of a list of cells.
    Cells,
}

impl Spelling {
    /// # Errors
    /// If the file has no first layer.
    fn of(file: &StateDict) -> Result<Self, String> {
        let is_there = |spelling: &Self| file.contains(&spelling.name("weight_ih", 0, ""));
        let mut spellings = [Self::Layers, Self::Cell, Self::Cells].into_iter();
        if let Some(found) = spellings.find(is_there) {
            return Ok(found);
        }
        // No file of layers has a name that ends so.
        let nearest = match file.all_names().any(|name| name.ends_with("weight_ih")) {
            true => Self::Cell,
            false => Self::Layers,
        };
        file.shape(&nearest.name("weight_ih", 0, ""))
            .map(|_| nearest)
    }

    fn name(self, kind: &str, layer: usize, direction: &str) -> String {
        match self {
            Self::Layers => format!("{kind}_l{layer}{direction}"),
            Self::Cell => kind.to_string(),
            Self::Cells => format!("{layer}.{kind}"),
        }
    }

    /// # Errors
    /// If the file has more layers or directions than `recurrent`, or cells, which read in one direction, and
    /// `recurrent` reads in both.
    fn refuse_others(self, recurrent: &Recurrent, file: &StateDict) -> Result<(), String> {
        let count = recurrent.layers.len();
        let is_of_both = !recurrent.reversed.is_empty();
        match self {
            Self::Cell if count > 1 => {
                let cell = file.full("weight_ih");
                Err(format!("expected {count} layers, got one cell, `{cell}`"))
            }
            Self::Cell | Self::Cells if is_of_both => {
                Err("expected layers that read in both directions, got cells".to_string())
            }
            Self::Cell => Ok(()),
            Self::Layers | Self::Cells => {
                let reason = format!("the number of layers is {count}");
                file.refuse(&self.name("weight_ih", count, ""), &reason)?;
                if is_of_both {
                    return Ok(());
                }
                let reason = "the layers read in one direction";
                file.refuse("weight_ih_l0_reverse", reason)
            }
        }
    }
}
