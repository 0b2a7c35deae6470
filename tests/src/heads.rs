//! Multi-head attention given to the library.

use std::collections::BTreeMap;

use attention_core::{Mask, MultiHeadAttention, ScoringFunction};
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};

use crate::{Array, MaskSpec, Outcome, Path, device};

/// Queries, keys, values and `grad_context`, without a heads axis.
pub type Inputs = BTreeMap<String, Array>;

/// The feature dimension of all heads together.
pub const HIDDENS: usize = 12;
/// The number of heads, where a test does not choose it.
pub const HEADS: usize = 3;
/// `[batch, heads, queries, keys]`
pub const SHAPE: [usize; 4] = [2, HEADS, 5, 7];

/// Where and in which type a test runs.
pub type On<'a> = (&'a Device, DType);

/// Queries, keys, values and the gradient of the context.
pub fn inputs([query, key, value]: [usize; 3], output: usize) -> Inputs {
    let [batch, _, queries, keys] = SHAPE;
    let input = |name: &str, seed, len, size| (name.into(), Array::draw(seed, &[batch, len, size]));
    Inputs::from([
        input("queries", 1, queries, query),
        input("keys", 2, keys, key),
        input("values", 3, keys, value),
        input("grad_context", 4, queries, output),
    ])
}

/// So many roundings.
pub fn roundings(count: f64, (_, dtype): On) -> f64 {
    count * device::epsilon(dtype)
}

/// Queries, keys and values of type `dtype`.
pub fn tensors(inputs: &Inputs, (device, dtype): (&Device, DType)) -> [Tensor<3>; 3] {
    ["queries", "keys", "values"].map(|name| inputs[name].tensor(device, dtype))
}

fn projections<S: ScoringFunction>(module: &MultiHeadAttention<S>) -> Vec<(&'static str, &Linear)> {
    let (query, key) = (("query", &module.query), ("key", &module.key));
    let mut projections = vec![query, key, ("value", &module.value)];
    projections.extend(module.output.iter().map(|output| ("output", output)));
    projections
}

/// Context, weights where there are any, and all gradients of inputs and projections. The parameters are of type
/// `dtype`.
///
/// # Panics
/// If a gradient is missing.
#[allow(clippy::unwrap_used, reason = "a test fails where it panics")]
pub fn run<S: ScoringFunction>(
    module: &MultiHeadAttention<S>,
    inputs: &Inputs,
    mask: &MaskSpec,
    path: Path,
    (device, dtype): (&Device, DType),
) -> Outcome {
    let leaves = tensors(inputs, (device, dtype)).map(Tensor::require_grad);
    let [q, k, v] = leaves.clone();
    let mask = mask.mask(device);
    let (context, weights) = match path {
        Path::Forward => (module.forward(q, k, v, &mask), None),
        Path::Attend => {
            let memory = module.prepare(k, v, mask);
            (module.attend(q, &memory, Mask::none()), None)
        }
        Path::ForwardWithWeights => {
            let output = module.forward_with_weights(q, k, v, &mask);
            (output.context, Some(output.weights))
        }
        Path::AttendWithWeights => {
            let output = module.attend_with_weights(q, &module.prepare(k, v, mask), Mask::none());
            (output.context, Some(output.weights))
        }
        Path::Steps => {
            let memory = module.prepare(k, v, mask);
            let step = |at| module.attend(q.clone().narrow(1, at, 1), &memory, Mask::none());
            (Tensor::cat((0..q.dims()[1]).map(step).collect(), 1), None)
        }
    };
    let received = inputs["grad_context"].tensor::<3>(device, dtype);
    let gradients = (context.clone() * received).sum().backward();
    let mut outcome = Outcome::from([("context".into(), Array::read(context))]);
    if let Some(weights) = weights {
        outcome.insert("weights".into(), Array::read(weights));
    }
    for (name, leaf) in ["queries", "keys", "values"].into_iter().zip(&leaves) {
        let gradient = Array::read(leaf.grad(&gradients).unwrap());
        outcome.insert(format!("grad {name}"), gradient);
    }
    for (name, projection) in projections(module) {
        let gradient = Array::read(projection.weight.val().grad(&gradients).unwrap());
        outcome.insert(format!("grad {name}.weight"), gradient);
        if let Some(bias) = &projection.bias {
            let gradient = Array::read(bias.val().grad(&gradients).unwrap());
            outcome.insert(format!("grad {name}.bias"), gradient);
        }
    }
    if let Some(extra) = &module.attention.extra_keys {
        for (name, rows) in [("keys", &extra.keys), ("values", &extra.values)] {
            let gradient = Array::read(rows.val().grad(&gradients).unwrap());
            outcome.insert(format!("grad attention.extra_keys.{name}"), gradient);
        }
    }
    outcome
}

/// The part `at` of three along the rows of a tensor in PyTorch's layout.
fn third(array: &Array, at: usize) -> Array {
    let mut shape = array.shape.clone();
    shape[0] /= 3;
    let part = array.data.len() / 3;
    Array::new(&shape, array.data[at * part..(at + 1) * part].to_vec())
}

/// Parameters of D2L's and PyTorch's, or their gradients, under our paths and in our layout.
pub fn parameters_of_pytorch(arrays: &Inputs) -> Outcome {
    let mut parameters = Outcome::new();
    let mut insert = |name: &str, kind: &str, array: Array| {
        let array = match kind {
            "weight" => array.permute(&[1, 0]),
            _ => array,
        };
        parameters.insert(format!("{name}.{kind}"), array);
    };
    let projections = [("q", "query"), ("k", "key"), ("v", "value")];
    for (full, array) in arrays {
        let theirs = full.trim_start_matches("inner.");
        let kind = ["weight", "bias"][usize::from(theirs.ends_with("bias"))];
        if theirs.starts_with("in_proj") {
            for (at, (_, ours)) in projections.into_iter().enumerate() {
                insert(ours, kind, third(array, at));
            }
        } else if let Some(letter) = full.strip_prefix("inner.bias_") {
            let own = if letter == "k" { "keys" } else { "values" };
            let heads = array.reshape(&[HEADS, 1, HIDDENS / HEADS]);
            insert("attention.extra_keys", own, heads);
        } else if theirs.starts_with("out_proj") || theirs.starts_with("W_o") {
            insert("output", kind, array.clone());
        } else if let Some((_, ours)) = projections.into_iter().find(|(letter, _)| {
            theirs.starts_with(&format!("W_{letter}")) || theirs == format!("{letter}_proj_weight")
        }) {
            insert(ours, kind, array.clone());
        }
    }
    parameters
}
