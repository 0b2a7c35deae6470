//! BLOOM.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::{ImportError, StateDict};
use attention_core::position::{Alibi, AlibiConfig, Biased};
use attention_core::score::DotProductScoreConfig;
use burn::tensor::Device;

use super::decoder::{LLAMA, Layout, divides, load_decoder};
use super::fields::Fields;
use super::folder::load_model;
use super::fused::Fused;
use super::names::Names;
use crate::embedding::TokenEmbeddingConfig;
use crate::encoder::TransformerEncoderConfig;
use crate::feed_forward::FeedForwardActivation;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;

/// The names of the sizes, which have others in other families and in the files of BigScience.
const NUM_HIDDENS: [&str; 2] = ["hidden_size", "n_embed"];
const NUM_HEADS: [&str; 2] = ["n_head", "num_attention_heads"];
const NUM_LAYERS: [&str; 2] = ["n_layer", "num_hidden_layers"];

/// The names after `transformer.` or those of a layer.
const LAYOUT: Layout = Layout {
    names: Names(&[
        ("embed_tokens", "word_embeddings"),
        ("embed_norm", "word_embeddings_layernorm"),
        ("norm", "ln_f"),
        ("layers.", "h."),
        ("self_attn.qkv_proj", "self_attention.query_key_value"),
        ("self_attn.o_proj", "self_attention.dense"),
        ("mlp.fc1", "mlp.dense_h_to_4h"),
        ("mlp.down_proj", "mlp.dense_4h_to_h"),
    ]),
    fused: Fused::InHeads,
    ..LLAMA
};

type Score = Biased<DotProductScore, Alibi>;

/// Loads a BLOOM (`model_type` `bloom`) from a folder of Hugging Face's: ALiBi, layer normalization after the embedding
/// and before the sublayers, biases everywhere, and the approximation of GELU by `tanh`.
///
/// - `word_embeddings.weight` (the embedding, and the head unless `tie_word_embeddings` is false),
///   `word_embeddings_layernorm` and `ln_f`, with or without `transformer.` before them; `lm_head.weight`
/// - of layer `n`, after `h.n.`: `input_layernorm`, `post_attention_layernorm` (before the feed-forward network),
///   `self_attention.query_key_value`, `self_attention.dense`, `mlp.dense_h_to_4h`, `mlp.dense_4h_to_h`, each with
///   `weight` and `bias`
///
/// The rows of `query_key_value` are those of the heads, one after the other, each with its queries, keys and values.
///
/// # Errors
/// As [`hub`](super) says.
pub fn load_bloom(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<LanguageModel<Score>, ImportError> {
    let init = |fields: &Fields| init(fields, device);
    let load = |model, file: &StateDict| load_decoder(model, file, &LAYOUT, |score, _| Ok(score));
    load_model(folder.as_ref(), &["bloom"], init, load, |_| false)
}

fn init(fields: &Fields, device: &Device) -> Result<LanguageModel<Score>, String> {
    let reason = "the rows themselves go around sublayers";
    fields.refuse_flag("apply_residual_connection_post_layernorm", reason)?;
    let is_sliced = fields
        .optional_size("pretraining_tp")?
        .is_some_and(|slices| slices > 1);
    if is_sliced {
        let reason = "with a `pretraining_tp` above 1 linear layers are computed in slices";
        fields.refuse_flag("slow_but_exact", reason)?;
    }
    let num_hiddens = fields.size_of_any(&NUM_HIDDENS)?;
    let num_heads = fields.size_of_any(&NUM_HEADS)?;
    let [heads, hiddens] = [&NUM_HEADS, &NUM_HIDDENS].map(|names| fields.present(names));
    divides(fields, heads, hiddens, [num_heads, num_hiddens])?;
    let norm = NormConfig::Layer {
        epsilon: fields.positive("layer_norm_epsilon")?,
        bias: true,
    };
    let layer = TransformerLayerConfig::new(num_hiddens, num_heads, 4 * num_hiddens)
        .with_activation(FeedForwardActivation::GeluTanh)
        .with_norm(norm.clone())
        .with_dropout(fields.dropout("hidden_dropout")?)
        .with_attention_dropout(fields.dropout("attention_dropout")?);
    let embedding =
        TokenEmbeddingConfig::new(fields.size("vocab_size")?, num_hiddens).with_norm(Some(norm));
    let stack = TransformerEncoderConfig::new(layer, fields.num_layers(&NUM_LAYERS)?);
    let is_tied = fields.flag("tie_word_embeddings", true)?;
    let config = LanguageModelConfig::new(embedding, stack).with_tied(is_tied);
    let score = |_| {
        let score = DotProductScoreConfig::new().init();
        Biased::new(score, AlibiConfig::new(num_heads).init())
    };
    Ok(config.init_with(score, device))
}
