//! Qwen 3.

use std::path::Path;

use attention_core::position::Rotary;
use attention_core::score::{QkNormScore, QkNormScoreConfig};
use attention_import::{ImportError, Reason, StateDict};
use burn::tensor::Device;

use super::decoder::{Heads, LLAMA, layer_config, load_decoder, model_config};
use super::folder::load_model;
use super::head::{FromDecoder, Loaded};
use super::layer_types::{last_windows, with_windows};
use super::llama::{THETA, is_buffer};
use super::rotary::{Angles, rotary};

/// Loads a dense Qwen 3 (`model_type` `qwen3`) from a Hugging Face folder: a Llama whose queries and keys are
/// normalized in each head before rotation, and whose last layers may attend to a window (`use_sliding_window`).
///
/// The names are those of [`load_llama`](super::load_llama), and after `model.layers.n.self_attn.` also the gains
/// `q_norm.weight` and `k_norm.weight`, with the size of a head.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_qwen3(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<QkNormScore>> {
    load_with(folder.as_ref(), device)
}

/// [`load_qwen3`], with a head or as the file has it.
pub(super) fn load_with<M: FromDecoder<Rotary<QkNormScore>>>(
    folder: &Path,
    device: &Device,
) -> Result<M, ImportError> {
    load_model(
        folder,
        &["qwen3"],
        |fields| {
            let heads = Heads::of(fields)?;
            let Angles { rotary, limit } = rotary(fields, heads.head_size, THETA)?;
            let layer = layer_config(fields, &heads, "hidden_act")?;
            let epsilon = fields.positive("rms_norm_eps")?;
            let config = model_config(fields, layer, false)?;
            let has_window = last_windows(fields, config.stack.num_layers)?;
            let score = QkNormScoreConfig::new(heads.head_size).with_epsilon(epsilon);
            let rotary = rotary.init_with(score.init(device), device);
            let score = |_| rotary.with_score(score.init(device));
            let mut model = config.init_with(score, device);
            model.embedding.angle_limit = limit;
            with_windows(model, fields, &has_window)
        },
        |model, file| {
            load_decoder(model, file, &LLAMA, |score, prefix| {
                load_qk_norm(score, file, prefix, 0.0)
            })
        },
        is_buffer::<_, M>,
    )
}

/// `rotary` with the gains `q_norm.weight` and `k_norm.weight` after `prefix`, plus `offset`.
pub(super) fn load_qk_norm(
    mut rotary: Rotary<QkNormScore>,
    file: &StateDict,
    prefix: &str,
    offset: f64,
) -> Result<Rotary<QkNormScore>, Reason> {
    let score = &mut rotary.score;
    for (gain, name) in [(&mut score.query, "q_norm"), (&mut score.key, "k_norm")] {
        let name = format!("{prefix}{name}.weight");
        *gain = file.parameter_of_offset(gain.clone(), &name, offset)?;
    }
    Ok(rotary)
}
