//! Names of a family that differ from another's.

use attention_import::{Reason, StateDict, unwrapped};
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::shape;

use crate::embedding::TokenEmbedding;
use crate::position_embedding::PositionEmbedding;

/// Names of fields or tensors, or parts of them: the name common to all families, and the family's own.
#[derive(Clone, Copy)]
pub(super) struct Names(pub(super) &'static [(&'static str, &'static str)]);

impl Names {
    /// The family's own name; the common one if the table has none.
    pub(super) fn own(self, name: &str) -> &str {
        let found = self.0.iter().find(|(common, _)| *common == name);
        found.map_or(name, |(_, own)| own)
    }
}

/// The name of a tensor without the names of wrappers, in its current form: normalizations of the first files have
/// `gamma` and `beta`.
pub(super) fn today(name: &str) -> String {
    let name = unwrapped(name);
    let parts = name.split('.').map(|part| match part {
        "gamma" => "weight",
        "beta" => "bias",
        other => other,
    });
    parts.collect::<Vec<_>>().join(".")
}

/// The first of several prefixes with which a file has `tensor`; the first one if there is none.
pub(super) fn prefix<'a>(file: &StateDict, prefixes: &[&'a str], tensor: &str) -> &'a str {
    let is_there = |prefix: &&&str| file.contains(&format!("{prefix}{tensor}"));
    prefixes.iter().find(is_there).unwrap_or(&prefixes[0])
}

/// The first of several layers whose weight a file has, the first one if there is none: a layer that is tied to others
/// may be saved under any of their names.
pub(super) fn first_of<'a>(file: &StateDict, names: &[&'a str]) -> &'a str {
    let is_there = |name: &&&str| file.contains(&format!("{name}.weight"));
    names.iter().find(is_there).unwrap_or(&names[0])
}

/// Loads the learned positions of `embedding`, if it has any: the rows of the tensor `name` from `first` on.
pub(super) fn load_positions(
    embedding: &mut TokenEmbedding,
    file: &StateDict,
    name: &str,
    first: usize,
) -> Result<(), Reason> {
    if let Some(PositionEmbedding::Learned(positions)) = &mut embedding.positions {
        let [max_positions, size] = shape(&positions.weight);
        let name = format!("{name}.weight");
        let found = file.find(&name, &[first + max_positions, size])?;
        let found = found.map(|stored| stored.narrow(first, max_positions));
        let weight = positions.weight.clone();
        positions.weight = file.load(weight, &name, &found, |data, device, dtype| {
            Tensor::from_data(data, (device, dtype))
        })?;
    }
    Ok(())
}
