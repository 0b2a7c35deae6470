//! Gemma 3.

use std::path::Path;

use attention_core::position::Rotary;
use attention_core::score::{QkNormScore, QkNormScoreConfig};
use attention_import::{ImportError, Reason};
use burn::tensor::Device;
use serde_json::{Value, json};

use super::decoder::{Heads, load_decoder};
use super::fields::Fields;
use super::folder::load_model;
use super::head::{FromDecoder, Loaded};
use super::layer_types::{FULL, SLIDING, has_window, with_windows};
use super::llama::{GEMMA, gemma_config, is_buffer, scale};
use super::qwen3::load_qk_norm;
use super::rotary::{Angles, rotary_of};

/// The base of the angles in layers with a window, if a config has none.
const LOCAL_THETA: f64 = 10_000.0;

/// The base of the angles in the other layers.
const GLOBAL_THETA: f64 = 1_000_000.0;

/// The distance between layers without a window, if a config has none.
const PATTERN: usize = 6;

/// Parts of the names of tensors for pictures.
const OF_PICTURES: [&str; 2] = ["vision_tower.", "multi_modal_projector."];

/// Loads the text model of a Gemma 3 (`model_type` `gemma3_text`, or `gemma3`, which has it in `text_config` together
/// with a model of pictures that is ignored) from a Hugging Face folder: as [`load_gemma2`](super::load_gemma2), with
/// normalized queries and keys instead of a soft-cap on scores, and different angles in layers with and without a
/// window.
///
/// The names are those of [`load_gemma2`](super::load_gemma2), and after `model.layers.n.self_attn.` also the gains
/// `q_norm.weight` and `k_norm.weight`.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_gemma3(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<QkNormScore>> {
    load_with(folder.as_ref(), device)
}

/// [`load_gemma3`], with a head or as the file has it.
pub(super) fn load_with<M: FromDecoder<Rotary<QkNormScore>>>(
    folder: &Path,
    device: &Device,
) -> Result<M, ImportError> {
    load_model(
        folder,
        &["gemma3_text", "gemma3"],
        |fields| {
            let fields = &of_texts(fields)?;
            let heads = Heads::of(fields)?;
            let [local, global] = angles(fields, heads.head_size)?;
            let config = gemma_config(fields, &heads)?;
            let reason = "the family has no soft-cap on scores";
            fields.refuse("attn_logit_softcapping", reason)?;
            let epsilon = fields.positive("rms_norm_eps")?;
            let pattern = fields.optional_size("sliding_window_pattern")?;
            let pattern = pattern.unwrap_or(PATTERN);
            let num_layers = config.stack.num_layers;
            let has_window = has_window(fields, num_layers, |at| (at + 1) % pattern != 0)?;
            let score = QkNormScoreConfig::new(heads.head_size).with_epsilon(epsilon);
            let score = score.with_scale(Some(scale(fields)?));
            let limits = [local.limit, global.limit].into_iter().flatten();
            let limit = limits.min_by_key(|limit| limit.max_positions);
            let [local, global] =
                [local, global].map(|angles| angles.rotary.init_with(score.init(device), device));
            let score = |at: usize| {
                let angles = if has_window[at] { &local } else { &global };
                angles.with_score(score.init(device))
            };
            let mut model = config.init_with(score, device);
            model.embedding.angle_limit = limit;
            with_windows(model, fields, &has_window)
        },
        |model, file| {
            load_decoder(model, file, &GEMMA, |score, prefix| {
                load_qk_norm(score, file, prefix, GEMMA.offset)
            })
        },
        |name| is_buffer::<_, M>(name) || OF_PICTURES.iter().any(|part| name.contains(part)),
    )
}

/// The fields of the text model. In a file with a model of pictures, fields with the default value of `transformers`
/// are missing.
fn of_texts(fields: &Fields) -> Result<Fields, Reason> {
    let Some(of_texts) = fields.object("text_config")? else {
        return Ok(fields.clone());
    };
    let defaults = [
        ("vocab_size", json!(262_208)),
        ("num_attention_heads", json!(8)),
        ("num_key_value_heads", json!(4)),
        ("head_dim", json!(256)),
        ("hidden_activation", json!("gelu_pytorch_tanh")),
        ("max_position_embeddings", json!(131_072)),
        ("rms_norm_eps", json!(1e-6)),
        ("query_pre_attn_scalar", json!(256)),
        ("sliding_window", json!(4096)),
    ];
    let defaults = defaults.into_iter();
    let of_texts = defaults.fold(of_texts, |fields, (name, value)| fields.or(name, value));
    // The head belongs to the whole model, which caps no logits, whatever the model of texts says.
    let of_texts = of_texts.with("final_logit_softcapping", Some(Value::Null));
    let is_tied = fields.value("tie_word_embeddings").cloned();
    Ok(match is_tied {
        Some(is_tied) => of_texts.with("tie_word_embeddings", Some(is_tied)),
        None => of_texts,
    })
}

/// The angles of layers with a window, and of layers without one.
///
/// Since version 5 of `transformers` each kind has its object in `rope_parameters`. The older `rope_scaling` changes
/// the fields of layers without a window.
fn angles(fields: &Fields, head_size: usize) -> Result<[Angles; 2], Reason> {
    let theta = |name: &str, default: f64| {
        Ok::<_, Reason>(fields.optional_positive(name)?.unwrap_or(default))
    };
    let local_theta = theta("rope_local_base_freq", LOCAL_THETA)?;
    let global_theta = theta("rope_theta", GLOBAL_THETA)?;
    let parameters = fields.object("rope_parameters")?;
    let of_kind = |kind: &str| match &parameters {
        Some(parameters) => {
            parameters.refuse("rope_type", "each kind of layer has its own")?;
            parameters.object(kind)
        }
        None => Ok(None),
    };
    let (full, scaling) = (of_kind(FULL)?, fields.object("rope_scaling")?);
    let is_unnamed = |scaling: &Fields| {
        let has_name = scaling.value("rope_type").is_some();
        !has_name && !scaling.is_empty() && (full.is_none() || scaling.has("type"))
    };
    if let Some(scaling) = scaling.as_ref().filter(|scaling| is_unnamed(scaling)) {
        let expected = "the kind of scaling, as version 5 of `transformers` ignores `type` here";
        return Err(scaling.missing("rope_type", expected));
    }
    let global = match (full, scaling, &parameters) {
        (global, None, _) => global,
        (Some(global), Some(scaling), _) => Some(global.updated(scaling)),
        (None, Some(scaling), None) => Some(scaling),
        (None, Some(_), Some(parameters)) => {
            return Err(parameters.missing(FULL, "an object, which `rope_scaling` changes"));
        }
    };
    // Version 5.24 reads this field next to the objects of the kinds, and nowhere else.
    let all = parameters.as_ref().filter(|all| all.has("truncate"));
    let truncate = all.map(|all| all.value("truncate").cloned().unwrap_or(Value::Null));
    let rotary = |of_kind: Option<Fields>, theta| {
        let of_kind = of_kind.map(|own| own.with("truncate", truncate.clone()));
        rotary_of(fields, of_kind.as_ref(), head_size, theta)
    };
    let local = rotary(of_kind(SLIDING)?, local_theta)?;
    Ok([local, rotary(global, global_theta)?])
}
