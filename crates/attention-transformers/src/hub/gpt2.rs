//! GPT-2.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::ImportError;
use attention_core::score::DotProductScoreConfig;
use burn::tensor::Device;

use super::activation::activation;
use super::decoder::{LLAMA, Layout, divides, load_decoder};
use super::fields::Fields;
use super::folder::load_model;
use super::fused::Fused;
use super::head::FromDecoder;
use super::names::Names;
use crate::embedding::{PositionEmbeddingConfig, TokenEmbeddingConfig};
use crate::encoder::TransformerEncoderConfig;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;

/// The names of the sizes, which have others in other families.
const NUM_HIDDENS: [&str; 2] = ["n_embd", "hidden_size"];
const NUM_HEADS: [&str; 2] = ["n_head", "num_attention_heads"];
const NUM_LAYERS: [&str; 2] = ["n_layer", "num_hidden_layers"];
const MAX_POSITIONS: [&str; 2] = ["n_positions", "max_position_embeddings"];

/// The names after `transformer.` or those of a layer.
const LAYOUT: Layout = Layout {
    names: Names(&[
        ("embed_tokens", "wte"),
        ("embed_positions", "wpe"),
        ("norm", "ln_f"),
        ("layers.", "h."),
        ("input_layernorm", "ln_1"),
        ("post_attention_layernorm", "ln_2"),
        ("self_attn.qkv_proj", "attn.c_attn"),
        ("self_attn.o_proj", "attn.c_proj"),
        ("mlp.fc1", "mlp.c_fc"),
        ("mlp.down_proj", "mlp.c_proj"),
    ]),
    fused: Fused::Whole,
    is_transposed: true,
    ..LLAMA
};

/// Loads a GPT-2 (`model_type` `gpt2`) from a folder of Hugging Face's: learned positions, layer normalization before
/// the sublayers, biases everywhere.
///
/// - `wte.weight` (the embedding, and the head unless `tie_word_embeddings` is false), `wpe.weight`, `ln_f.weight`
///   and `.bias`, with or without `transformer.` before them; `lm_head.weight`
/// - of layer `n`, after `h.n.`: `ln_1`, `ln_2`, `attn.c_attn` (queries, keys and values, side by side), `attn.c_proj`,
///   `mlp.c_fc`, `mlp.c_proj`, each with `weight` and `bias`
///
/// The weights are those of `Conv1D`, `[in, out]`, as Burn has them. The buffers `attn.bias` and `attn.masked_bias`,
/// which are masks, are left alone.
///
/// # Errors
/// As [`hub`](super) says.
pub fn load_gpt2(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<DotProductScore>, ImportError> {
    load_with(folder.as_ref(), device)
}

/// [`load_gpt2`], with a head or however the file has it.
pub(super) fn load_with<M: FromDecoder<DotProductScore>>(
    folder: &Path,
    device: &Device,
) -> Result<M, ImportError> {
    load_model(
        folder,
        &["gpt2"],
        |fields| init(fields, device),
        |model, file| load_decoder(model, file, &LAYOUT, |score, _| Ok(score)),
        |name| {
            let is_mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
            is_mask || M::leaves_alone(name)
        },
    )
}

fn init(fields: &Fields, device: &Device) -> Result<LanguageModel<DotProductScore>, String> {
    let reason = "there is no memory to attend to";
    fields.refuse_flag("add_cross_attention", reason)?;
    let num_hiddens = fields.size_of_any(&NUM_HIDDENS)?;
    let num_heads = fields.size_of_any(&NUM_HEADS)?;
    let [heads, hiddens] = [&NUM_HEADS, &NUM_HIDDENS].map(|names| fields.present(names));
    divides(fields, heads, hiddens, [num_heads, num_hiddens])?;
    let feed_forward_size = fields.optional_size("n_inner")?;
    let epsilon = fields.positive("layer_norm_epsilon")?;
    let activation = activation(fields, "activation_function", false)?;
    let layer = TransformerLayerConfig::new(
        num_hiddens,
        num_heads,
        feed_forward_size.unwrap_or(4 * num_hiddens),
    )
    .with_activation(activation)
    .with_norm(NormConfig::Layer {
        epsilon,
        bias: true,
    })
    .with_dropout(fields.dropout("resid_pdrop")?)
    .with_attention_dropout(fields.dropout("attn_pdrop")?);

    let max_positions = fields.size_of_any(&MAX_POSITIONS)?;
    let embedding = TokenEmbeddingConfig::new(fields.size("vocab_size")?, num_hiddens)
        .with_positions(PositionEmbeddingConfig::Learned { max_positions })
        .with_dropout(fields.dropout("embd_pdrop")?);
    let stack = TransformerEncoderConfig::new(layer, fields.num_layers(&NUM_LAYERS)?);
    let is_tied = fields.flag("tie_word_embeddings", true)?;
    let config = LanguageModelConfig::new(embedding, stack).with_tied(is_tied);

    let is_scaled = fields.flag("scale_attn_weights", true)?;
    let is_scaled_by_layer = fields.flag("scale_attn_by_inverse_layer_idx", false)?;
    let score = |at: usize| {
        let head_size = (num_hiddens / num_heads) as f64;
        let of_size = if is_scaled { head_size.sqrt() } else { 1.0 };
        let of_layer = if is_scaled_by_layer { at + 1 } else { 1 };
        let scale = 1.0 / (of_size * of_layer as f64);
        DotProductScoreConfig::new().with_scale(Some(scale)).init()
    };
    Ok(config.init_with(score, device))
}
