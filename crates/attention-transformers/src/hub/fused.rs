//! Linear layers that share one tensor in a file.

use attention_import::{Place, Reason, StateDict};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::shape;

/// How queries, keys and values share one tensor, and gate and input of the feed-forward network another.
#[derive(PartialEq, Eq)]
pub(super) enum Fused {
    /// Each has a tensor of its own.
    Apart,
    /// All parts are in one tensor, one after the other.
    Whole,
    /// Queries, keys and values of each head are adjacent, head by head; there is no gate.
    InHeads,
}

/// The parts of a fused linear layer, given by their numbers of outputs, in the order of the tensor's rows.
pub(super) fn fused<const N: usize>(whole: &[Place; 2], outputs: [usize; N]) -> [[Place; 2]; N] {
    let rows = outputs.iter().sum();
    std::array::from_fn(|at| {
        whole.each_ref().map(|place| Place {
            name: place.name.clone(),
            start: outputs[..at].iter().sum(),
            rows: Some(rows),
            is_transposed: place.is_transposed,
        })
    })
}

/// Part `at` (queries, keys or values) of a tensor in which these three are adjacent for each head.
pub(super) fn load_part(
    linear: Linear,
    file: &StateDict,
    name: &str,
    [at, heads]: [usize; 2],
) -> Result<Linear, Reason> {
    let [size, outputs] = shape(&linear.weight);
    let of_head = outputs / heads;
    let [weight, bias] = ["weight", "bias"].map(|kind| format!("{name}.{kind}"));
    let found = file.find(&weight, &[3 * outputs, size])?;
    let found = found.map(|stored| stored.transpose());
    let weight = file.load(linear.weight, &weight, &found, |data, device, dtype| {
        let fused =
            Tensor::<2>::from_data(data, (device, dtype)).reshape([size, heads, 3, of_head]);
        fused.narrow(2, at, 1).reshape([size, outputs])
    })?;
    let load_bias = |param: Param<Tensor<1>>| {
        let found = file.find(&bias, &[3 * outputs])?;
        file.load(param, &bias, &found, |data, device, dtype| {
            let fused = Tensor::<1>::from_data(data, (device, dtype)).reshape([heads, 3, of_head]);
            fused.narrow(1, at, 1).reshape([outputs])
        })
    };
    let bias = linear.bias.map(load_bias).transpose()?;
    Ok(Linear { weight, bias })
}
