//! BLOOM.

use std::path::Path;

use attention_core::import::{ImportError, Place, StateDict};
use attention_core::position::{Alibi, AlibiConfig, Biased};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, MultiHeadAttention};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::parameter::shape;

use super::decoder::divides;
use super::fields::Fields;
use super::folder::load_model;
use super::head::FromDecoder;
use crate::embedding::TokenEmbeddingConfig;
use crate::encoder::TransformerEncoderConfig;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::feed_forward::FeedForwardActivation;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;
use crate::state_dict::ReadNorm;

/// The names of the sizes, which have others in other families and in the files of BigScience.
const NUM_HIDDENS: [&str; 2] = ["hidden_size", "n_embed"];
const NUM_HEADS: [&str; 2] = ["n_head", "num_attention_heads"];
const NUM_LAYERS: [&str; 2] = ["n_layer", "num_hidden_layers"];

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

fn load(mut model: LanguageModel<Score>, file: &StateDict) -> Result<LanguageModel<Score>, String> {
    // The model alone, as BigScience's files have it, or within one with a head.
    let base = if file.contains("word_embeddings.weight") {
        ""
    } else {
        "transformer."
    };
    let name = |name: &str| format!("{base}{name}");
    let embedding = &mut model.embedding;
    embedding.tokens = file.embedding(embedding.tokens.clone(), &name("word_embeddings"))?;
    let norms = [
        (&mut embedding.norm, "word_embeddings_layernorm"),
        (&mut model.stack.norm, "ln_f"),
    ];
    for (norm, of_norm) in norms {
        let loaded = norm.take().map(|norm| file.norm(norm, &name(of_norm)));
        *norm = loaded.transpose()?;
    }
    let layers = model.stack.layers.into_iter().enumerate();
    let layers = layers.map(|(at, layer)| load_layer(layer, file, &name(&format!("h.{at}."))));
    model.stack.layers = layers.collect::<Result<_, _>>()?;
    let embedding = name("word_embeddings.weight");
    LanguageModel::from_decoder(model, file, "lm_head", &embedding)
}

fn load_layer(
    mut layer: TransformerEncoderLayer<Score>,
    file: &StateDict,
    prefix: &str,
) -> Result<TransformerEncoderLayer<Score>, String> {
    let name = |name: &str| format!("{prefix}{name}");
    let place = |of_layer: &str| Place::weight_and_bias(&name(of_layer));
    layer.attention = load_attention(layer.attention, file, &name("self_attention."))?;
    let network = &mut layer.feed_forward;
    network.input = file.linear(network.input.clone(), place("mlp.dense_h_to_4h"))?;
    network.output = file.linear(network.output.clone(), place("mlp.dense_4h_to_h"))?;
    let places = [
        (&mut layer.attention_residual, "input_layernorm"),
        (&mut layer.feed_forward_residual, "post_attention_layernorm"),
    ];
    for (residual, of_norm) in places {
        residual.norm = file.norm(residual.norm.clone(), &name(of_norm))?;
    }
    Ok(layer)
}

fn load_attention(
    mut attention: MultiHeadAttention<Score>,
    file: &StateDict,
    prefix: &str,
) -> Result<MultiHeadAttention<Score>, String> {
    let heads = attention.num_heads();
    let fused = format!("{prefix}query_key_value");
    let output = attention.output;
    let place = || Place::weight_and_bias(&format!("{prefix}dense"));
    let output = output.map(|output| file.linear(output, place()));
    attention.query = load_part(attention.query, file, &fused, [0, heads])?;
    attention.key = load_part(attention.key, file, &fused, [1, heads])?;
    attention.value = load_part(attention.value, file, &fused, [2, heads])?;
    attention.output = output.transpose()?;
    Ok(attention)
}

/// The part `at` of the three of each head, of all heads.
fn load_part(
    linear: Linear,
    file: &StateDict,
    name: &str,
    [at, heads]: [usize; 2],
) -> Result<Linear, String> {
    let [size, outputs] = shape(&linear.weight);
    let of_head = outputs / heads;
    let [weight, bias] = ["weight", "bias"].map(|kind| format!("{name}.{kind}"));
    let found = file.find(&weight, &[3 * outputs, size])?;
    let found = found.map(|stored| stored.transpose());
    let weight = file.load(linear.weight, &weight, &found, |data, device, dtype| {
        let fused = Tensor::<2>::from_data(data, (device, dtype));
        let fused = fused.reshape([size, heads, 3, of_head]);
        fused.narrow(2, at, 1).reshape([size, outputs])
    })?;
    let load_bias = |param: Param<Tensor<1>>| {
        let found = file.find(&bias, &[3 * outputs])?;
        file.load(param, &bias, &found, |data, device, dtype| {
            let fused = Tensor::<1>::from_data(data, (device, dtype));
            let fused = fused.reshape([heads, 3, of_head]);
            fused.narrow(1, at, 1).reshape([outputs])
        })
    };
    let bias = linear.bias.map(load_bias).transpose()?;
    Ok(Linear { weight, bias })
}
