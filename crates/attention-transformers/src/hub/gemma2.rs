//! Gemma 2.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::ImportError;
use attention_core::position::Rotary;
use attention_core::score::DotProductScoreConfig;
use burn::tensor::Device;

use super::decoder::{Heads, load_decoder};
use super::folder::load_model;
use super::gemma::{GEMMA, gemma_config, scale};
use super::head::FromDecoder;
use super::layer_types::{has_window, with_windows};
use super::llama::is_buffer;
use super::rotary::rotary;
use crate::language_model::LanguageModel;

/// The base of the angles, where a config has none.
const THETA: f64 = 10_000.0;

/// Loads a Gemma 2 (`model_type` `gemma2`) from a folder of Hugging Face's: rotation of halves, soft-caps on scores and
/// logits, a window in every other layer, a scale of scores of its own (`query_pre_attn_scalar`), normalizations before
/// and after each sublayer, and an embedding that is multiplied by `sqrt(hidden_size)`.
///
/// The names are those of [`load_llama`](super::load_llama), but for the normalizations of a layer: `input_layernorm`,
/// `post_attention_layernorm` (of what attention adds), `pre_feedforward_layernorm` and `post_feedforward_layernorm`.
/// Files have a gain less 1; the models here have the gain.
///
/// # Errors
/// As [`hub`](super) says.
pub fn load_gemma2(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<Rotary<DotProductScore>>, ImportError> {
    load_with(folder.as_ref(), device)
}

/// [`load_gemma2`], with a head or however the file has it.
pub(super) fn load_with<M: FromDecoder<Rotary<DotProductScore>>>(
    folder: &Path,
    device: &Device,
) -> Result<M, ImportError> {
    load_model(
        folder,
        &["gemma2"],
        |fields| {
            let heads = Heads::of(fields)?;
            let rotary = rotary(fields, heads.head_size, THETA)?;
            let mut config = gemma_config(fields, &heads)?;
            let soft_cap = fields.positive_or_null("attn_logit_softcapping")?;
            config.stack.layer.soft_cap = soft_cap;
            let has_window = has_window(fields, config.stack.num_layers, |at| at % 2 == 0)?;
            let score = DotProductScoreConfig::new().with_scale(Some(scale(fields)?));
            let rotary = rotary.init_with(score.init(), device);
            let model = config.init_with(|_| rotary.clone(), device);
            with_windows(model, fields, &has_window)
        },
        |model, file| load_decoder(model, file, &GEMMA, |score, _| Ok(score)),
        is_buffer::<_, M>,
    )
}
