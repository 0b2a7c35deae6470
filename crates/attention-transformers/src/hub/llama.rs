//! Llama.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::ImportError;
use attention_core::position::Rotary;
use attention_core::score::DotProductScoreConfig;
use burn::tensor::Device;

use super::decoder::{Heads, layer_config, load_decoder, model_config};
use super::folder::load_model;
use super::rotary::rotary;
use crate::language_model::LanguageModel;

/// The base of the angles, where a config has none.
const THETA: f64 = 10_000.0;

/// Loads a Llama (1 to 3; `model_type` `llama`) from a folder of Hugging Face's: grouped heads, rotation of halves,
/// RMS norms before the sublayers, a gated feed-forward network.
///
/// - `model.embed_tokens.weight`, `model.norm.weight`, and `lm_head.weight` unless `tie_word_embeddings`
/// - of layer `n`, after `model.layers.n.`: `input_layernorm.weight`, `post_attention_layernorm.weight` (before the
///   feed-forward network), `self_attn.q_proj.weight`, `k_proj`, `v_proj`, `o_proj`, and `mlp.gate_proj.weight`,
///   `up_proj`, `down_proj`; their biases with `attention_bias` and `mlp_bias`
///
/// The buffers `rotary_emb.inv_freq` of older files are left alone.
///
/// # Errors
/// As [`hub`](super) says.
///
/// ```no_run
/// use attention_transformers::hub::load_llama;
/// use attention_transformers::GenerateConfig;
/// use burn::prelude::*;
///
/// let model = load_llama("Llama-3.2-1B", &Device::flex())?;
/// // Tokens of its tokenizer, which is not ours.
/// let prompt = [vec![128000, 791, 1401, 311, 2324, 374]];
/// let texts = GenerateConfig::new(20).generate(&model, model.cache(), &prompt).run();
/// println!("{:?}", texts[0].tokens);
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_llama(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<Rotary<DotProductScore>>, ImportError> {
    load_model(
        folder.as_ref(),
        "llama",
        |fields| {
            let heads = Heads::of_llama(fields)?;
            let rotary = rotary(fields, heads.head_size, THETA)?;
            let layer = layer_config(fields, &heads, "hidden_act")?;
            let config = model_config(fields, layer, false)?;
            let rotary = rotary.init_with(DotProductScoreConfig::new().init(), device);
            Ok(config.init_with(|_| rotary.clone(), device))
        },
        |model, file| load_decoder(model, file, 0.0, |score, _| Ok(score)),
        is_buffer,
    )
}

/// The angles, which older files have in each layer.
pub(super) fn is_buffer(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
}
