//! GPT-2, OPT and BLOOM: layer normalization before the sublayers, and biases everywhere.

use std::path::Path;

use attention_core::position::{Alibi, AlibiConfig};
use attention_core::score::{Biased, DotProductScoreConfig};
use attention_core::{DotProductScore, ScoringFunction};
use attention_import::{ImportError, Reason, StateDict};
use burn::tensor::Device;

use super::activation::activation;
use super::decoder::{LLAMA, Layout, load_decoder, model_config};
use super::fields::Fields;
use super::folder::load_model;
use super::fused::Fused;
use super::head::{FromDecoder, Loaded};
use super::names::Names;
use crate::feed_forward::FeedForwardActivation;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;
use crate::position_embedding::PositionEmbeddingConfig;

/// A family whose fields and tensors have its own names instead of BERT's and Llama's.
pub(super) struct Family<S: ScoringFunction> {
    model_type: &'static str,
    fields: Names,
    init: fn(&Fields, &Device) -> Result<LanguageModel<S>, Reason>,
    layout: Layout,
    /// The suffixes of the names of buffers.
    buffers: &'static [&'static str],
}

pub(super) const GPT2: Family<DotProductScore> = Family {
    model_type: "gpt2",
    fields: Names(&[
        ("hidden_size", "n_embd"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
        ("max_position_embeddings", "n_positions"),
        ("intermediate_size", "n_inner"),
        ("hidden_act", "activation_function"),
        ("hidden_dropout_prob", "resid_pdrop"),
        ("attention_probs_dropout_prob", "attn_pdrop"),
    ]),
    init: init_gpt2,
    layout: Layout {
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
    },
    buffers: &[".attn.bias", ".attn.masked_bias"],
};

pub(super) const OPT: Family<DotProductScore> = Family {
    model_type: "opt",
    fields: Names(&[
        ("intermediate_size", "ffn_dim"),
        ("hidden_act", "activation_function"),
        ("hidden_dropout_prob", "dropout"),
        ("attention_probs_dropout_prob", "attention_dropout"),
    ]),
    init: |fields, device| Ok(opt_config(fields)?.init(device)),
    layout: Layout {
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
    },
    buffers: &[],
};

pub(super) const BLOOM: Family<Biased<DotProductScore, Alibi>> = Family {
    model_type: "bloom",
    fields: Names(&[
        // In the files by BigScience.
        ("hidden_size", "n_embed"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
        ("hidden_dropout_prob", "hidden_dropout"),
        ("attention_probs_dropout_prob", "attention_dropout"),
    ]),
    init: init_bloom,
    layout: Layout {
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
    },
    buffers: &[],
};

/// Loads a GPT-2 (`model_type` `gpt2`) from a Hugging Face folder: learned positions, layer normalization before the
/// sublayers, biases everywhere.
///
/// - `wte.weight` (the embedding, and the head unless `tie_word_embeddings` is false), `wpe.weight`, `ln_f.weight`
///   and `.bias`, with or without `transformer.` before them; `lm_head.weight`
/// - for layer `n`, after `h.n.`: `ln_1`, `ln_2`, `attn.c_attn` (queries, keys and values, concatenated),
///   `attn.c_proj`, `mlp.c_fc`, `mlp.c_proj`, each with `weight` and `bias`
///
/// The weights are `[in, out]`, as in `Conv1D` and Burn. The buffers `attn.bias` and `attn.masked_bias`, which are
/// masks, are ignored.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_gpt2(folder: impl AsRef<Path>, device: &Device) -> Loaded<DotProductScore> {
    load_with(folder.as_ref(), device, &GPT2)
}

fn init_gpt2(fields: &Fields, device: &Device) -> Result<LanguageModel<DotProductScore>, Reason> {
    fields.refuse_flag("add_cross_attention", "there is no memory to attend to")?;
    let [num_heads, num_hiddens] = fields.heads_and_hiddens()?;
    let norm = norm(fields)?;
    let feed_forward_size = fields.optional_size("intermediate_size")?;
    let feed_forward_size = feed_forward_size.unwrap_or(4 * num_hiddens);
    let activation = activation(fields, "hidden_act", false)?;
    let layer = layer_config(fields, feed_forward_size, activation, norm)?;
    let mut config = model_config(fields, layer, true)?;
    config.embedding.positions = learned(fields)?;
    config.embedding.dropout = fields.dropout("embd_pdrop")?;

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

/// Loads an OPT (`model_type` `opt`) from a Hugging Face folder: learned positions, layer normalization before the
/// sublayers, biases everywhere.
///
/// - after `model.decoder.`: `embed_tokens.weight` (also the head, unless `tie_word_embeddings` is false),
///   `embed_positions.weight`, whose first two rows are not used, and `final_layer_norm`
/// - for layer `n`, after `model.decoder.layers.n.`: `self_attn.q_proj`, `k_proj`, `v_proj`, `out_proj`,
///   `self_attn_layer_norm`, `fc1`, `fc2`, `final_layer_norm`, each with `weight` and `bias`
///
/// Models whose embedding has a size of its own or whose normalizations come after the sublayers, such as the one with
/// 350 million parameters, are refused.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_opt(folder: impl AsRef<Path>, device: &Device) -> Loaded<DotProductScore> {
    load_with(folder.as_ref(), device, &OPT)
}

fn opt_config(fields: &Fields) -> Result<LanguageModelConfig, Reason> {
    for name in [
        "do_layer_norm_before",
        "enable_bias",
        "layer_norm_elementwise_affine",
    ] {
        fields.expect_flag(name, "as most models of the family have it")?;
    }
    let reason = "a normalization follows the last layer";
    fields.refuse_flag("_remove_final_layer_norm", reason)?;
    fields.expect_size_of_hiddens("word_embed_proj_dim")?;
    let feed_forward_size = fields.size("intermediate_size")?;
    let activation = activation(fields, "hidden_act", false)?;
    let layer = layer_config(fields, feed_forward_size, activation, NormConfig::layer())?;
    let mut config = model_config(fields, layer, true)?;
    config.embedding.positions = learned(fields)?;
    Ok(config)
}

/// Loads a BLOOM (`model_type` `bloom`) from a Hugging Face folder: ALiBi, layer normalization after the embedding and
/// before the sublayers, biases everywhere, and the approximation of GELU by `tanh`.
///
/// - `word_embeddings.weight` (the embedding, and the head unless `tie_word_embeddings` is false),
///   `word_embeddings_layernorm` and `ln_f`, with or without `transformer.` before them; `lm_head.weight`
/// - for layer `n`, after `h.n.`: `input_layernorm`, `post_attention_layernorm` (before the feed-forward network),
///   `self_attention.query_key_value`, `self_attention.dense`, `mlp.dense_h_to_4h`, `mlp.dense_4h_to_h`, each with
///   `weight` and `bias`
///
/// `query_key_value` has the heads one after the other, each with its rows of queries, keys and values.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_bloom(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Loaded<Biased<DotProductScore, Alibi>> {
    load_with(folder.as_ref(), device, &BLOOM)
}

fn init_bloom(
    fields: &Fields,
    device: &Device,
) -> Result<LanguageModel<Biased<DotProductScore, Alibi>>, Reason> {
    let reason = "the rows themselves go around sublayers";
    fields.refuse_flag("apply_residual_connection_post_layernorm", reason)?;
    let slices = fields.optional_size("pretraining_tp")?;
    if slices.is_some_and(|slices| slices > 1) {
        let reason = "with a `pretraining_tp` above 1 linear layers are computed in slices";
        fields.refuse_flag("slow_but_exact", reason)?;
    }
    let [num_heads, num_hiddens] = fields.heads_and_hiddens()?;
    let norm = norm(fields)?;
    let activation = FeedForwardActivation::GeluTanh;
    let layer = layer_config(fields, 4 * num_hiddens, activation, norm.clone())?;
    let mut config = model_config(fields, layer, true)?;
    config.embedding.norm = Some(norm);
    let score = |_| {
        let score = DotProductScoreConfig::new().init();
        Biased::new(score, AlibiConfig::new(num_heads).init())
    };
    Ok(config.init_with(score, device))
}

/// The model in a folder of this family, with a head or as the file has it.
pub(super) fn load_with<S: ScoringFunction, M: FromDecoder<S>>(
    folder: &Path,
    device: &Device,
    family: &Family<S>,
) -> Result<M, ImportError> {
    load_model(
        folder,
        &[family.model_type],
        |fields| (family.init)(&fields.clone().named(family.fields), device),
        |model, file: &StateDict| load_decoder(model, file, &family.layout, |score, _| Ok(score)),
        |name| {
            let mut buffers = family.buffers.iter();
            buffers.any(|end| name.ends_with(end)) || M::leaves_alone(name)
        },
    )
}

fn norm(fields: &Fields) -> Result<NormConfig, Reason> {
    Ok(NormConfig::Layer {
        epsilon: fields.positive("layer_norm_epsilon")?,
        bias: true,
    })
}

/// A layer whose sizes and dropout are in the fields by BERT's names.
pub(super) fn layer_config(
    fields: &Fields,
    feed_forward_size: usize,
    activation: FeedForwardActivation,
    norm: NormConfig,
) -> Result<TransformerLayerConfig, Reason> {
    let [num_heads, num_hiddens] = fields.heads_and_hiddens()?;
    let config = TransformerLayerConfig::new(num_hiddens, num_heads, feed_forward_size);
    Ok(config
        .with_activation(activation)
        .with_norm(norm)
        .with_dropout(fields.dropout("hidden_dropout_prob")?)
        .with_attention_dropout(fields.dropout("attention_probs_dropout_prob")?))
}

fn learned(fields: &Fields) -> Result<PositionEmbeddingConfig, Reason> {
    let max_positions = fields.size("max_position_embeddings")?;
    Ok(PositionEmbeddingConfig::Learned { max_positions })
}
