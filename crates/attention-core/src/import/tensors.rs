//! The tensors of a file that PyTorch wrote, as they are.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::TensorData;

/// All tensors whose names start with `prefix`, without it; and all names, to tell what there was.
pub(super) struct Tensors {
    pub(super) tensors: BTreeMap<String, TensorData>,
    pub(super) names: Vec<String>,
}

/// Reads the file at `path`.
pub(super) fn read(path: &Path, prefix: &str) -> Result<Tensors, String> {
    if let Err(source) = std::fs::File::open(path) {
        return Err(source.to_string());
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("pt" | "pth" | "bin") => pytorch(path, prefix),
        Some("safetensors") => safetensors(path, prefix),
        _ => Err("expected a file ending in .pt, .pth, .bin or .safetensors".to_string()),
    }
}

#[cfg(not(feature = "pytorch"))]
fn pytorch(_: &Path, _: &str) -> Result<Tensors, String> {
    Err("reading PyTorch files needs the feature `pytorch` of attention-core".to_string())
}

#[cfg(not(feature = "safetensors"))]
fn safetensors(_: &Path, _: &str) -> Result<Tensors, String> {
    Err("reading safetensors files needs the feature `safetensors` of attention-core".to_string())
}

#[cfg(feature = "pytorch")]
fn pytorch(path: &Path, prefix: &str) -> Result<Tensors, String> {
    // Names stay as they are: the numbers of layers are part of a prefix.
    let store = burn::store::PytorchStore::from_file(path).map_indices_contiguous(false);
    collect(store, prefix)
}

#[cfg(feature = "safetensors")]
fn safetensors(path: &Path, prefix: &str) -> Result<Tensors, String> {
    let store = burn::store::SafetensorsStore::from_file(path).map_indices_contiguous(false);
    collect(store, prefix)
}

#[cfg(any(feature = "pytorch", feature = "safetensors"))]
fn collect(mut store: impl burn::store::ModuleStore, prefix: &str) -> Result<Tensors, String> {
    let one_line = |error: String| error.replace('\n', " ");
    let all = store
        .get_all_tensors()
        .map_err(|error| one_line(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in all {
        if let Some(name) = name.strip_prefix(prefix) {
            let data = burn::store::bridge::to_data(tensor)
                .map_err(|error| one_line(error.to_string()))?;
            tensors.insert(name.to_string(), data);
        }
    }
    let names = all.keys().cloned().collect();
    Ok(Tensors { tensors, names })
}
