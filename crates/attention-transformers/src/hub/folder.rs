//! Folders of models, as `save_pretrained` writes them.

use std::path::Path;

use attention_import::{ImportError, Reason, StateDict};
use tensor_files::shown;

use super::fields::Fields;
use super::names::today;

/// The file with the sizes.
pub(super) const CONFIG: &str = "config.json";

/// The files with the parameters, in the order of preference.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// The file of a PEFT adapter.
const ADAPTER: &str = "adapter_config.json";

/// Fields in configs of quantized parameters; the second one occurs in older files of compressed-tensors.
const QUANTIZED: [&str; 2] = ["quantization_config", "compression_config"];

/// Checks the `model_type` in the `config.json` of `folder`, builds the model by `init`, and fills it by `load`; a
/// tensor left over that is no known buffer is an error.
pub(super) fn load_model<I, M>(
    folder: &Path,
    model_types: &[&str],
    init: impl FnOnce(&Fields) -> Result<I, Reason>,
    load: impl FnOnce(I, &StateDict) -> Result<M, Reason>,
    is_buffer: impl Fn(&str) -> bool,
) -> Result<M, ImportError> {
    let adapter = folder.join(ADAPTER);
    if adapter.exists() {
        let reason = "expected no adapter of PEFT beside a model, since it is not read: save the model that \
                      `merge_and_unload` returns";
        return Err(ImportError::of(&adapter)(reason.to_string()));
    }
    let config = folder.join(CONFIG);
    let model = Fields::read(&config)
        .and_then(|fields| {
            let got = fields.text("model_type")?;
            if !model_types.contains(&got) {
                return Err(fields.unknown("model_type", model_types, got));
            }
            let of_texts = fields.object("text_config")?;
            for fields in [Some(&fields), of_texts.as_ref()].into_iter().flatten() {
                for name in QUANTIZED {
                    fields.refuse(name, "parameters that are packed are not read")?;
                }
                fields.refuse_unread()?;
            }
            init(&fields)
        })
        .map_err(ImportError::of(&config))?;
    load_weights(folder, |file| load(model, file), is_buffer)
}

/// The result of `load` for the parameters in `folder`; a tensor left over that is no known buffer is an error.
pub(super) fn load_weights<M>(
    folder: &Path,
    load: impl FnOnce(&StateDict) -> Result<M, Reason>,
    is_buffer: impl Fn(&str) -> bool,
) -> Result<M, ImportError> {
    let present = WEIGHTS.iter().map(|name| folder.join(name));
    let Some(weights) = present.into_iter().find(|path| path.exists()) else {
        let names = WEIGHTS.join(", ");
        let reason = format!("expected one of the files {names}, found none");
        return Err(ImportError::of(folder)(reason));
    };
    let checked = |file: StateDict| {
        let model = load(&file)?;
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
        )
        .into())
    };
    StateDict::open(&weights, "")
        .and_then(|file| checked(file.renamed(today)?))
        .map_err(ImportError::of(&weights))
}
