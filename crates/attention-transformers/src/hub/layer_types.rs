//! The layers that attend to a window.

use attention_core::ScoringFunction;
use attention_import::Reason;

use super::fields::Fields;
use crate::language_model::LanguageModel;

/// The names of layers with a window and without one.
pub(super) const LAYER_TYPES: [&str; 2] = [SLIDING, FULL];

pub(super) const SLIDING: &str = "sliding_attention";
pub(super) const FULL: &str = "full_attention";

/// Whether each of `num_layers` layers attends to a window: according to the list `layer_types`, otherwise to
/// `by_default` of the layer's index.
pub(super) fn has_window(
    fields: &Fields,
    num_layers: usize,
    by_default: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, Reason> {
    let Some(types) = fields.texts("layer_types")? else {
        return Ok((0..num_layers).map(by_default).collect());
    };
    if types.len() != num_layers {
        let expected = format!("one for each of {num_layers} layers");
        return Err(fields.wrong("layer_types", &expected, types.len()));
    }
    let is_sliding = |name: &str| match name {
        SLIDING => Ok(true),
        FULL => Ok(false),
        other => Err(fields.unknown("layer_types", &LAYER_TYPES, other)),
    };
    types.into_iter().map(is_sliding).collect()
}

/// Whether each layer of a Qwen attends to a window: with `use_sliding_window`, those from `max_window_layers` on.
pub(super) fn last_windows(fields: &Fields, num_layers: usize) -> Result<Vec<bool>, Reason> {
    let first = if fields.flag("use_sliding_window", false)? {
        fields.size_or_0("max_window_layers")?
    } else {
        num_layers
    };
    has_window(fields, num_layers, |at| at >= first)
}

/// Every layer of a Mistral attends to a window, unless `sliding_window` is null or `layer_types` says otherwise.
pub(super) fn all_windows(fields: &Fields, num_layers: usize) -> Result<Vec<bool>, Reason> {
    let is_there = fields.value("sliding_window").is_some();
    has_window(fields, num_layers, |_| is_there)
}

/// `model` with windows in the layers that have one: `sliding_window` rows, including the row itself.
pub(super) fn with_windows<S: ScoringFunction>(
    mut model: LanguageModel<S>,
    fields: &Fields,
    has_window: &[bool],
) -> Result<LanguageModel<S>, Reason> {
    for (layer, has_window) in model.stack.layers.iter_mut().zip(has_window) {
        let window = has_window.then(|| fields.size("sliding_window"));
        layer.window = window.transpose()?;
    }
    Ok(model)
}
