//! Folders of models, as `save_pretrained` writes them.

use std::path::Path;

use attention_core::import::{ImportError, StateDict};
use tensor_files::shown;

use super::fields::Fields;
use super::names::today;

/// The file of the sizes.
pub(super) const CONFIG: &str = "config.json";

/// The files of the parameters, the one that is preferred first.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// The model of `folder`: made by `init` of its `config.json`, which is one of `model_types`, and filled by `load` with
/// its parameters, of which none may be left but those that `is_buffer` knows.
pub(super) fn load_model<I, M>(
    folder: &Path,
    model_types: &[&str],
    init: impl FnOnce(&Fields) -> Result<I, String>,
    load: impl FnOnce(I, &StateDict) -> Result<M, String>,
    is_buffer: impl Fn(&str) -> bool,
) -> Result<M, ImportError> {
    let init = |fields: &Fields| {
        let reason = "parameters that are packed are not read";
        fields.refuse("quantization_config", reason)?;
        fields.refuse_unread()?;
        init(fields)
    };
    let load = |model: I, file: &StateDict| {
        let model = load(model, file)?;
        let mut left = file.unread().into_iter().filter(|name| !is_buffer(name));
        let Some(name) = left.next() else {
            return Ok(model);
        };
        let others = match left.count() {
            0 => String::new(),
            count => format!(", nor for {count} others"),
        };
        Err(format!(
            "expected no tensor `{}`, for which the model of `{CONFIG}` has no place{others}",
            shown(name)
        ))
    };
    load_part(folder, model_types, init, load)
}

/// [`load_model`] of a part, which leaves the other parameters alone.
pub(super) fn load_part<I, M>(
    folder: &Path,
    model_types: &[&str],
    init: impl FnOnce(&Fields) -> Result<I, String>,
    load: impl FnOnce(I, &StateDict) -> Result<M, String>,
) -> Result<M, ImportError> {
    let config = folder.join(CONFIG);
    let part = Fields::read(&config).and_then(|fields| {
        let got = fields.text("model_type")?;
        if !model_types.contains(&got) {
            return Err(fields.unknown("model_type", model_types, got));
        }
        init(&fields)
    });
    let part = part.map_err(ImportError::of(&config))?;
    let present = WEIGHTS.iter().map(|name| folder.join(name));
    let Some(weights) = present.into_iter().find(|path| path.exists()) else {
        let reason = format!(
            "expected one of the files {}, found none",
            WEIGHTS.join(", ")
        );
        return Err(ImportError::of(folder)(reason));
    };
    StateDict::open(&weights, "")
        .and_then(|file| load(part, &file.renamed(today)?))
        .map_err(ImportError::of(&weights))
}
