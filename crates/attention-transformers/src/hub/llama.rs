//! Llama, and the families that differ from it in a bias, a window, a norm, or names.

use std::path::Path;

use attention_core::position::Rotary;
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, ScoringFunction};
use attention_import::{ImportError, Reason};
use burn::tensor::Device;

use super::decoder::{Heads, LLAMA, Layout, layer_config, load_decoder, model_config};
use super::fields::Fields;
use super::folder::load_model;
use super::fused::Fused;
use super::head::{FromDecoder, Loaded};
use super::layer_types::{all_windows, has_window, last_windows, with_windows};
use super::rotary::{Angles, ORIGINAL, rotary};
use crate::feed_forward::FeedForwardActivation;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::residual::NormOrder;

/// The base of the angles, if a config has none.
pub(super) const THETA: f64 = 10_000.0;

/// Loads a Llama (1 to 3; `model_type` `llama`) from a Hugging Face folder: grouped heads, rotation of halves, RMS
/// norms before the sublayers, a gated feed-forward network.
///
/// - `model.embed_tokens.weight`, `model.norm.weight`, and `lm_head.weight` unless `tie_word_embeddings`
/// - for layer `n`, after `model.layers.n.`: `input_layernorm.weight`, `post_attention_layernorm.weight` (before the
///   feed-forward network), `self_attn.q_proj.weight`, `k_proj`, `v_proj`, `o_proj`, and `mlp.gate_proj.weight`,
///   `up_proj`, `down_proj`; their biases with `attention_bias` and `mlp_bias`
///
/// The buffers `rotary_emb.inv_freq` of older files are ignored. A `sliding_window` in the config of a Llama or a Gemma
/// 1 changes nothing, as in `transformers` 5.24: all layers attend to all earlier tokens.
///
/// # Errors
/// As [`hub`](super) describes.
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
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_llama(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<DotProductScore>> {
    load_with(folder.as_ref(), device, &["llama"])
}

/// Loads a Mistral (`model_type` `mistral` or `ministral`: Mistral, Nemo, Ministral) from a Hugging Face folder: a
/// [Llama](load_llama) whose layers (all, or those in `layer_types`) attend to a window of `sliding_window` tokens,
/// unless that is null.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_mistral(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<DotProductScore>> {
    load_with(folder.as_ref(), device, &["mistral", "ministral"])
}

/// Loads a dense Qwen 2 or 2.5 (`model_type` `qwen2`) from a Hugging Face folder: a [Llama](load_llama) whose queries,
/// keys and values have a bias, and whose last layers may attend to a window (`use_sliding_window`).
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_qwen2(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<DotProductScore>> {
    load_with(folder.as_ref(), device, &["qwen2"])
}

/// Loads a Phi-3 or Phi-4 (`model_type` `phi3`) from a Hugging Face folder: a [Llama](load_llama) whose queries, keys
/// and values are one tensor, `self_attn.qkv_proj.weight`, and whose gate and input of the feed-forward network are
/// another, `mlp.gate_up_proj.weight`. Layers may attend to a window, as in a [Mistral](load_mistral), and only part of
/// a head may be rotated.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_phi3(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<DotProductScore>> {
    load_with(folder.as_ref(), device, &["phi3"])
}

/// Loads a Gemma 1 (`model_type` `gemma`) from a Hugging Face folder: a [Llama](load_llama) whose embedding is
/// multiplied by `sqrt(hidden_size)` and, unless `tie_word_embeddings` is false, is also the head. Files have gains
/// less 1; the models here have the gains.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_gemma(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<DotProductScore>> {
    load_with(folder.as_ref(), device, &["gemma"])
}

/// Loads a Gemma 2 (`model_type` `gemma2`) from a Hugging Face folder: a [Gemma](load_gemma) with soft-caps on scores
/// and logits, a window in every other layer, its own scale of scores (`query_pre_attn_scalar`), and normalizations
/// before and after each sublayer: `input_layernorm`, `post_attention_layernorm` (of attention's output),
/// `pre_feedforward_layernorm` and `post_feedforward_layernorm`.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_gemma2(folder: impl AsRef<Path>, device: &Device) -> Loaded<Rotary<DotProductScore>> {
    load_with(folder.as_ref(), device, &["gemma2"])
}

/// The differences of a family from Llama.
struct Family {
    model_types: &'static [&'static str],
    layout: Layout,
    heads: fn(&Fields) -> Result<Heads, Reason>,
    config: fn(&Fields, &Heads) -> Result<LanguageModelConfig, Reason>,
    /// Whether queries, keys and values have a bias and the output projection has none; else `attention_bias` decides.
    has_input_bias: bool,
    /// The factor on scores, if it is not `1 / sqrt(head_size)`.
    scale: fn(&Fields) -> Result<Option<f64>, Reason>,
    /// The layers with a window, from the fields and the number of layers.
    windows: fn(&Fields, usize) -> Result<Vec<bool>, Reason>,
    /// A field with its default when absent, as opposed to null.
    default: Option<(&'static str, usize)>,
}

const FAMILY: Family = Family {
    model_types: &["llama"],
    layout: LLAMA,
    heads: Heads::of_llama,
    config: |fields, heads| {
        let layer = layer_config(fields, heads, "hidden_act")?;
        model_config(fields, layer, false)
    },
    has_input_bias: false,
    scale: |_| Ok(None),
    windows: |_, num_layers| Ok(vec![false; num_layers]),
    default: None,
};

const FAMILIES: [Family; 6] = [
    FAMILY,
    Family {
        model_types: &["mistral", "ministral"],
        windows: all_windows,
        default: Some(("sliding_window", 4096)),
        ..FAMILY
    },
    Family {
        model_types: &["qwen2"],
        has_input_bias: true,
        windows: last_windows,
        ..FAMILY
    },
    Family {
        model_types: &["phi3"],
        layout: Layout {
            fused: Fused::Whole,
            ..LLAMA
        },
        // This family has no `layer_types`.
        windows: |fields, num_layers| {
            Ok(vec![fields.value("sliding_window").is_some(); num_layers])
        },
        default: Some((ORIGINAL, 4096)),
        ..FAMILY
    },
    Family {
        model_types: &["gemma"],
        layout: GEMMA,
        config: |fields, heads| {
            let mut layer = layer_config(fields, heads, "hidden_act")?;
            // The first releases say `gelu` but mean its approximation.
            if fields.text("hidden_act")? == "gelu" {
                layer.activation = FeedForwardActivation::GeGluTanh;
            }
            let mut config = model_config(fields, layer, true)?;
            config.embedding.scaled = true;
            Ok(config)
        },
        ..FAMILY
    },
    Family {
        model_types: &["gemma2"],
        layout: GEMMA,
        heads: Heads::of,
        config: |fields, heads| {
            let mut config = gemma_config(fields, heads)?;
            config.stack.layer.soft_cap = fields.positive_or_null("attn_logit_softcapping")?;
            Ok(config)
        },
        scale: |fields| scale(fields).map(Some),
        windows: |fields, num_layers| has_window(fields, num_layers, |at| at % 2 == 0),
        ..FAMILY
    },
];

/// The `model_type`s of the families.
pub(super) fn model_types() -> Vec<&'static str> {
    FAMILIES.map(|family| family.model_types).concat()
}

/// The model in a folder whose type is one of `model_types`, with a head or as the file has it.
pub(super) fn load_with<M: FromDecoder<Rotary<DotProductScore>>>(
    folder: &Path,
    device: &Device,
    model_types: &[&str],
) -> Result<M, ImportError> {
    load_model(
        folder,
        model_types,
        |fields| {
            let model_type = fields.text("model_type")?;
            let mut families = FAMILIES.iter();
            let family = families
                .find(|of| of.model_types.contains(&model_type))
                .ok_or_else(|| fields.unknown("model_type", model_types, model_type))?;
            Ok((init(fields, family, device)?, &family.layout))
        },
        |(model, layout), file| load_decoder(model, file, layout, |score, _| Ok(score)),
        is_buffer::<_, M>,
    )
}

fn init(
    fields: &Fields,
    family: &Family,
    device: &Device,
) -> Result<LanguageModel<Rotary<DotProductScore>>, Reason> {
    let fields = &match family.default {
        Some((name, value)) if !fields.has(name) => fields.clone().with(name, Some(value.into())),
        _ => fields.clone(),
    };
    let heads = (family.heads)(fields)?;
    let Angles { rotary, limit } = rotary(fields, heads.head_size, THETA)?;
    let mut config = (family.config)(fields, &heads)?;
    config.stack.layer.attention_bias |= family.has_input_bias;
    let has_window = (family.windows)(fields, config.stack.num_layers)?;
    let score = DotProductScoreConfig::new().with_scale((family.scale)(fields)?);
    let rotary = rotary.init_with(score.init(), device);
    let mut model = config.init_with(|_| rotary.clone(), device);
    model.embedding.angle_limit = limit;
    if family.has_input_bias {
        let layers = model.stack.layers.iter_mut();
        for output in layers.filter_map(|layer| layer.attention.output.as_mut()) {
            output.bias = None;
        }
    }
    with_windows(model, fields, &has_window)
}

/// Whether a tensor is one of the angles, which older files have in each layer, or of a head that is not wanted.
pub(super) fn is_buffer<S: ScoringFunction, M: FromDecoder<S>>(name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq") || M::leaves_alone(name)
}

/// The layout of files with the gains of normalizations less 1.
pub(super) const GEMMA: Layout = Layout {
    offset: 1.0,
    ..LLAMA
};

/// Layers with normalizations before and after their sublayers, and a scaled embedding that is also the head.
pub(super) fn gemma_config(fields: &Fields, heads: &Heads) -> Result<LanguageModelConfig, Reason> {
    let reason = "rows attend to those up to themselves";
    fields.refuse_flag("use_bidirectional_attention", reason)?;
    let layer =
        layer_config(fields, heads, "hidden_activation")?.with_norm_order(NormOrder::Sandwich);
    let mut config = model_config(fields, layer, true)?;
    config.embedding.scaled = true;
    let soft_cap = fields.positive_or_null("final_logit_softcapping")?;
    Ok(config.with_logit_soft_cap(soft_cap))
}

/// The factor on scores, `1 / sqrt(query_pre_attn_scalar)`.
pub(super) fn scale(fields: &Fields) -> Result<f64, Reason> {
    Ok(fields.positive("query_pre_attn_scalar")?.sqrt().recip())
}
