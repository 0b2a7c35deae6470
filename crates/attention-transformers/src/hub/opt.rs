//! OPT.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::ImportError;
use burn::tensor::Device;

use super::activation::activation;
use super::decoder::{LLAMA, Layout, divides, load_decoder};
use super::fields::Fields;
use super::folder::load_model;
use super::head::FromDecoder;
use super::names::Names;
use crate::embedding::{PositionEmbeddingConfig, TokenEmbeddingConfig};
use crate::encoder::TransformerEncoderConfig;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;

/// The names after `model.decoder.` or after those of a layer. Positions begin in the third row of their table.
const LAYOUT: Layout = Layout {
    names: Names(&[
        ("norm", "final_layer_norm"),
        ("input_layernorm", "self_attn_layer_norm"),
        ("post_attention_layernorm", "final_layer_norm"),
        ("self_attn.o_proj", "self_attn.out_proj"),
        ("mlp.fc1", "fc1"),
        ("mlp.down_proj", "fc2"),
    ]),
    first_position: 2,
    ..LLAMA
};

/// Loads an OPT (`model_type` `opt`) from a folder of Hugging Face's: learned positions, layer normalization before the
/// sublayers, biases everywhere.
///
/// - after `model.decoder.`: `embed_tokens.weight` (also the head, unless `tie_word_embeddings` is false),
///   `embed_positions.weight`, whose first two rows nothing reads, and `final_layer_norm`
/// - of layer `n`, after `model.decoder.layers.n.`: `self_attn.q_proj`, `k_proj`, `v_proj`, `out_proj`,
///   `self_attn_layer_norm`, `fc1`, `fc2`, `final_layer_norm`, each with `weight` and `bias`
///
/// The models whose embedding has a size of its own or whose normalizations come after the sublayers, as the one of 350
/// million parameters, are refused.
///
/// # Errors
/// As [`hub`](super) says.
pub fn load_opt(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<DotProductScore>, ImportError> {
    load_with(folder.as_ref(), device)
}

/// [`load_opt`], with a head or however the file has it.
pub(super) fn load_with<M: FromDecoder<DotProductScore>>(
    folder: &Path,
    device: &Device,
) -> Result<M, ImportError> {
    load_model(
        folder,
        &["opt"],
        |fields| Ok(config(fields)?.init(device)),
        |model, file| load_decoder(model, file, &LAYOUT, |score, _| Ok(score)),
        M::leaves_alone,
    )
}

fn config(fields: &Fields) -> Result<LanguageModelConfig, String> {
    for name in [
        "do_layer_norm_before",
        "enable_bias",
        "layer_norm_elementwise_affine",
    ] {
        if !fields.flag(name, true)? {
            return Err(fields.wrong(name, "true, as most models of the family have it", "false"));
        }
    }
    let reason = "a normalization follows the last layer";
    fields.refuse_flag("_remove_final_layer_norm", reason)?;
    let num_hiddens = fields.size("hidden_size")?;
    let num_heads = fields.size("num_attention_heads")?;
    let sizes = [num_heads, num_hiddens];
    divides(fields, "num_attention_heads", "hidden_size", sizes)?;
    let size = fields.optional_size("word_embed_proj_dim")?;
    if let Some(got) = size.filter(|size| *size != num_hiddens) {
        let expected = format!("`hidden_size`, {num_hiddens}");
        return Err(fields.wrong("word_embed_proj_dim", &expected, &got.to_string()));
    }
    let dropout = fields.dropout("dropout")?;
    let layer = TransformerLayerConfig::new(num_hiddens, num_heads, fields.size("ffn_dim")?)
        .with_activation(activation(fields, "activation_function", false)?)
        .with_norm(NormConfig::layer())
        .with_dropout(dropout)
        .with_attention_dropout(fields.dropout("attention_dropout")?);
    let max_positions = fields.size("max_position_embeddings")?;
    let embedding = TokenEmbeddingConfig::new(fields.size("vocab_size")?, num_hiddens)
        .with_positions(PositionEmbeddingConfig::Learned { max_positions });
    let stack = TransformerEncoderConfig::new(layer, fields.num_layers(&["num_hidden_layers"])?);
    let is_tied = fields.flag("tie_word_embeddings", true)?;
    Ok(LanguageModelConfig::new(embedding, stack).with_tied(is_tied))
}
