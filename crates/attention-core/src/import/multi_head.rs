//! Parameters of multi-head attention, of the book and of PyTorch.

use std::path::Path;

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Tensor, TensorData};

use super::ImportError;
use super::tensors::{Tensors, read};
use crate::{MultiHead, ScoringFunction};

/// Loads a PyTorch state dict of multi-head attention into `attention`: of the book's `MultiHeadAttention` (`W_q.weight`, ..,
/// `W_o.weight`) or of `torch.nn.MultiheadAttention` (`in_proj_weight`, or `q_proj_weight`, `k_proj_weight` and
/// `v_proj_weight` where the sizes differ; `out_proj.weight`). Biases (`W_q.bias`, ..; `in_proj_bias`, `out_proj.bias`) are
/// loaded if `attention` has them.
///
/// `prefix` is what stands before these names in the file: `""` for a state dict of the attention alone.
///
/// # Errors
/// If the file is missing or malformed, its extension is none of `pt`, `pth`, `bin` and `safetensors`, a tensor is missing or
/// of another shape than `attention` was configured for, or the file has a bias or an output map that `attention` has not.
///
/// ```no_run
/// use attention_core::MultiHeadConfig;
/// use attention_core::import::load_multi_head_attention;
/// use burn::prelude::*;
///
/// let attention = MultiHeadConfig::new(512, 8).with_bias(true).init(&Device::flex());
/// let attention = load_multi_head_attention(attention, "model.pt", "encoder.layers.0.self_attn.")?;
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_multi_head_attention<S: ScoringFunction>(
    attention: MultiHead<S>,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<MultiHead<S>, ImportError> {
    let path = path.as_ref();
    read(path, prefix)
        .and_then(|tensors| load(attention, tensors))
        .map_err(|reason| ImportError {
            path: path.to_path_buf(),
            reason,
        })
}

/// Where a map's weight or bias stands: the rows from `start` of a tensor of `rows` rows in all.
struct Place {
    name: String,
    start: usize,
    rows: usize,
}

impl Place {
    fn whole(name: String, rows: usize) -> Self {
        Self {
            name,
            start: 0,
            rows,
        }
    }
}

fn load<S: ScoringFunction>(
    attention: MultiHead<S>,
    mut file: Tensors,
) -> Result<MultiHead<S>, String> {
    if file.tensors.contains_key("bias_k") || file.tensors.contains_key("bias_v") {
        return Err("`bias_k` and `bias_v` (add_bias_kv=True) are not supported".to_string());
    }
    let MultiHead {
        query,
        key,
        value,
        output,
        attention,
        num_heads,
        num_key_value_heads,
    } = attention;
    let book = file.tensors.keys().any(|name| name.starts_with("W_"));
    let fused = !book && !file.tensors.contains_key("q_proj_weight");

    let rows = [&query, &key, &value].map(|map| size(map).1);
    let all = rows.iter().sum();
    let places = |at: usize, letter: char| {
        let part = |name: &str| Place {
            name: name.to_string(),
            start: rows[..at].iter().sum(),
            rows: all,
        };
        let weight = match (book, fused) {
            (true, _) => Place::whole(format!("W_{letter}.weight"), rows[at]),
            (_, true) => part("in_proj_weight"),
            _ => Place::whole(format!("{letter}_proj_weight"), rows[at]),
        };
        let bias = match book {
            true => Place::whole(format!("W_{letter}.bias"), rows[at]),
            false => part("in_proj_bias"),
        };
        [weight, bias]
    };
    let query = fill(query, &file, places(0, 'q'))?;
    let key = fill(key, &file, places(1, 'k'))?;
    let value = fill(value, &file, places(2, 'v'))?;
    let name = if book { "W_o" } else { "out_proj" };
    let output = match output {
        Some(output) => {
            let places = ["weight", "bias"]
                .map(|kind| Place::whole(format!("{name}.{kind}"), size(&output).1));
            Some(fill(output, &file, places)?)
        }
        None => match file.tensors.remove(&format!("{name}.weight")) {
            Some(_) => {
                return Err(format!(
                    "expected no tensor `{name}.weight`, since the attention has no output map"
                ));
            }
            None => None,
        },
    };
    Ok(MultiHead {
        query,
        key,
        value,
        output,
        attention,
        num_heads,
        num_key_value_heads,
    })
}

/// `linear` with the parameters at `[weight, bias]`.
fn fill(linear: Linear, file: &Tensors, [weight, bias]: [Place; 2]) -> Result<Linear, String> {
    let (from, to) = size(&linear);
    let data = find(file, &weight, &[weight.rows, from])?;
    let filled = Param::transform_for_load;
    let weight = {
        let options = (&linear.weight.device(), linear.weight.dtype());
        let tensor = Tensor::<2>::from_data(data, options);
        // Through the host, so that no parameter is a view of a fused one.
        let data = tensor.narrow(0, weight.start, to).transpose().into_data();
        let id = linear.weight.id;
        filled(linear.weight, Tensor::from_data(data, options), id)
    };
    let bias = match linear.bias {
        Some(param) => {
            let data = find(file, &bias, &[bias.rows])?;
            let options = (&param.device(), param.dtype());
            let tensor = Tensor::<1>::from_data(data, options);
            let data = tensor.narrow(0, bias.start, to).into_data();
            let id = param.id;
            Some(param.transform_for_load(Tensor::from_data(data, options), id))
        }
        None if file.tensors.contains_key(&bias.name) => {
            return Err(format!(
                "expected no tensor `{}`, since the attention has no biases",
                bias.name
            ));
        }
        None => None,
    };
    Ok(Linear { weight, bias })
}

/// The tensor at `place`, whole.
fn find(file: &Tensors, place: &Place, shape: &[usize]) -> Result<TensorData, String> {
    let Some(data) = file.tensors.get(&place.name) else {
        return Err(format!(
            "expected a tensor `{}` after the given prefix, found only {}",
            place.name,
            file.names.join(", ")
        ));
    };
    match data.shape()[..] == *shape {
        true => Ok(data.clone()),
        false => Err(format!(
            "`{}`: expected the shape {shape:?}, got {:?}",
            place.name,
            data.shape()
        )),
    }
}

/// How many numbers a map takes and gives.
fn size(linear: &Linear) -> (usize, usize) {
    let [from, to] = linear.weight.shape().dims();
    (from, to)
}
