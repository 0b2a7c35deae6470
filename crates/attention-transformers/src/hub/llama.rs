//! Llama, and the families that differ from it in a bias or a window.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::ImportError;
use attention_core::position::Rotary;
use attention_core::score::DotProductScoreConfig;
use burn::tensor::Device;

use super::decoder::{Heads, layer_config, load_decoder, model_config};
use super::fields::Fields;
use super::folder::load_model;
use super::layer_types::{last_windows, with_windows};
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
    load(folder.as_ref(), device, &LLAMA)
}

/// Loads a Mistral (`model_type` `mistral`: Mistral, Nemo) from a folder of Hugging Face's: a [Llama](load_llama) whose
/// layers all attend to a window of `sliding_window` tokens, unless it is null.
///
/// # Errors
/// As [`hub`](super) says.
pub fn load_mistral(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<Rotary<DotProductScore>>, ImportError> {
    load(folder.as_ref(), device, &MISTRAL)
}

/// Loads a dense Qwen 2 or 2.5 (`model_type` `qwen2`) from a folder of Hugging Face's: a [Llama](load_llama) whose
/// queries, keys and values have a bias, and whose last layers may attend to a window (`use_sliding_window`).
///
/// # Errors
/// As [`hub`](super) says.
pub fn load_qwen2(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<Rotary<DotProductScore>>, ImportError> {
    load(folder.as_ref(), device, &QWEN2)
}

/// What tells a family from Llama.
struct Family {
    model_type: &'static str,
    /// Whether queries, keys and values have a bias that the output projection has not; else `attention_bias` says.
    has_input_bias: bool,
    /// Which of so many layers have a window.
    windows: fn(&Fields, usize) -> Result<Vec<bool>, String>,
}

const LLAMA: Family = Family {
    model_type: "llama",
    has_input_bias: false,
    windows: |_, num_layers| Ok(vec![false; num_layers]),
};

const MISTRAL: Family = Family {
    model_type: "mistral",
    has_input_bias: false,
    windows: |fields, num_layers| Ok(vec![fields.value("sliding_window").is_some(); num_layers]),
};

const QWEN2: Family = Family {
    model_type: "qwen2",
    has_input_bias: true,
    windows: last_windows,
};

fn load(
    folder: &Path,
    device: &Device,
    family: &Family,
) -> Result<LanguageModel<Rotary<DotProductScore>>, ImportError> {
    load_model(
        folder,
        family.model_type,
        |fields| {
            let heads = Heads::of_llama(fields)?;
            let rotary = rotary(fields, heads.head_size, THETA)?;
            let mut layer = layer_config(fields, &heads, "hidden_act")?;
            layer.attention_bias |= family.has_input_bias;
            let config = model_config(fields, layer, false)?;
            let has_window = (family.windows)(fields, config.stack.num_layers)?;
            let rotary = rotary.init_with(DotProductScoreConfig::new().init(), device);
            let mut model = config.init_with(|_| rotary.clone(), device);
            if family.has_input_bias {
                let layers = model.stack.layers.iter_mut();
                for output in layers.filter_map(|layer| layer.attention.output.as_mut()) {
                    output.bias = None;
                }
            }
            with_windows(model, fields, &has_window)
        },
        |model, file| load_decoder(model, file, 0.0, |score, _| Ok(score)),
        is_buffer,
    )
}

/// The angles, which older files have in each layer.
pub(super) fn is_buffer(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
}
