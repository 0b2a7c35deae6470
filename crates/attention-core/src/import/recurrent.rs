//! Parameters of `torch.nn.GRU` and `torch.nn.LSTM`.

use std::path::Path;

use burn::nn::Linear;
use burn_fused_layers::recurrent::{Recurrent, RecurrentLayer};

use super::ImportError;
use super::state_dict::{Place, StateDict};

/// Loads a PyTorch state dict of `torch.nn.GRU` or `torch.nn.LSTM` into `recurrent`: `weight_ih_l0`, `weight_hh_l0`,
/// `bias_ih_l0`, `bias_hh_l0`, those of the other layers, and those of the other direction (`weight_ih_l0_reverse`,
/// ..).
///
/// `prefix` is what stands before these names in the file: `""` for a state dict of the layers alone. Layers of a file
/// without biases (`bias=False`) have none.
///
/// # Errors
/// If the file is missing or malformed, a tensor is missing, of a type that cannot be read or of another shape than
/// `recurrent` was configured for, or the file has layers, a direction, biases or projections (`proj_size`) that
/// `recurrent` has not, or the cells of `recurrent` are none of PyTorch's.
///
/// ```no_run
/// use attention_core::import::load_recurrent;
/// use burn_fused_layers::recurrent::{CellKind, RecurrentConfig};
/// use burn::prelude::*;
///
/// let config = RecurrentConfig::new(CellKind::Gru, 64, 128).with_layers(2).with_bidirectional(true);
/// let encoder = load_recurrent(config.init(&Device::flex()), "model.pt", "encoder.rnn.")?;
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_recurrent(
    recurrent: Recurrent,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<Recurrent, ImportError> {
    let path = path.as_ref();
    StateDict::open(path, prefix)
        .and_then(|file| load(recurrent, &file))
        .map_err(ImportError::of(path))
}

fn load(recurrent: Recurrent, file: &StateDict) -> Result<Recurrent, String> {
    let mut layers = recurrent.layers.iter().chain(&recurrent.reversed);
    if layers.any(|layer| layer.peepholes.is_some() || !layer.reset_after) {
        return Err(
            "expected layers of PyTorch's cells, got peepholes or a reset before the product"
                .into(),
        );
    }
    let count = recurrent.layers.len();
    let reason = format!("the number of layers is {count}");
    file.refuse(&format!("weight_ih_l{count}"), &reason)?;
    if recurrent.reversed.is_empty() {
        file.refuse("weight_ih_l0_reverse", "the layers read in one direction")?;
    }
    let reason = "projections of the output are not supported";
    file.refuse("weight_hr_l0", reason)?;
    // With `bias=False` none of the layers has one: they stay what PyTorch trained.
    let is_bias = |name: &str| name.starts_with("bias_ih_l") || name.starts_with("bias_hh_l");
    let has_biases = file.names().any(is_bias);
    let direction = |layers: Vec<RecurrentLayer>, suffix: &str| {
        let layers = layers.into_iter().enumerate();
        let layers = layers.map(|(index, layer)| {
            let load = |linear: Linear, of: &str| {
                let linear = Linear {
                    bias: linear.bias.filter(|_| has_biases),
                    ..linear
                };
                let place = |kind| Place::whole(format!("{kind}_{of}_l{index}{suffix}"));
                file.linear(linear, ["weight", "bias"].map(place))
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
