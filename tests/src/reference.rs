//! PyTorch's results: `tests/reference`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::{Array, MaskSpec, Problem};

/// One case of a reference file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The name of the case.
    pub name: String,
    /// The keys that queries attend to.
    pub mask: MaskSpec,
    /// The factor on dot products, where it is not the default.
    pub scale: Option<f64>,
    /// Inputs, and the gradients that outputs receive.
    pub inputs: BTreeMap<String, Array>,
    /// Outputs.
    pub outputs: BTreeMap<String, Array>,
    /// Gradients of the inputs.
    pub gradients: BTreeMap<String, Array>,
}

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

/// The cases of `tests/reference/<name>.json`, all finite.
///
/// # Panics
/// If the file is missing, malformed or empty, or holds an element that is not finite.
pub fn reference(name: &str) -> Vec<Case> {
    let path = reference_path(&format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let file: File = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("cannot parse {}: {error}", path.display()));
    assert!(!file.cases.is_empty(), "{name}: no cases");
    for case in &file.cases {
        let arrays = case
            .inputs
            .iter()
            .chain(&case.outputs)
            .chain(&case.gradients);
        for (tensor, array) in arrays {
            let finite = array.data.iter().all(|number| number.is_finite());
            assert!(finite, "{name}: {}: {tensor} is not finite", case.name);
            assert_eq!(
                array.data.len(),
                array.shape.iter().product::<usize>(),
                "{name}: {tensor}"
            );
        }
    }
    file.cases
}

/// The path of a file in `tests/reference`.
pub fn reference_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("reference")
        .join(name)
}

impl Case {
    /// The case as a problem of the library, and the results that it must have.
    pub fn problem(&self) -> (Problem, BTreeMap<String, Array>) {
        let mut inputs = BTreeMap::new();
        let mut expected = self.outputs.clone();
        expected.remove("scores");
        for (name, array) in &self.inputs {
            if !name.starts_with("grad_") {
                inputs.insert(ours(name).to_string(), burn_layout(name, array));
            }
        }
        for (name, array) in &self.gradients {
            expected.insert(format!("grad {}", ours(name)), burn_layout(name, array));
        }
        let problem = Problem {
            inputs,
            scale: self.scale,
            mask: self.mask.clone(),
            grad_context: self.inputs.get("grad_context").cloned(),
            grad_weights: self.inputs.get("grad_weights").cloned(),
        };
        (problem, expected)
    }
}

fn ours(name: &str) -> &str {
    name.trim_end_matches(".weight")
}

/// PyTorch keeps the weight of a linear layer as `[out, in]`, Burn as `[in, out]`.
fn burn_layout(name: &str, array: &Array) -> Array {
    if name.ends_with(".weight") {
        array.permute(&[1, 0])
    } else {
        array.clone()
    }
}
