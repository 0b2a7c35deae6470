//! GPT-2.

use std::path::Path;

use attention_core::import::{ImportError, Place, StateDict};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, MultiHeadAttention};
use burn::tensor::Device;
use burn_fused_layers::harness::parameter::shape;

use super::activation::activation;
use super::decoder::divides;
use super::fields::Fields;
use super::folder::load_model;
use super::head::FromDecoder;
use super::names::load_positions;
use crate::embedding::{PositionEmbeddingConfig, TokenEmbeddingConfig};
use crate::encoder::TransformerEncoderConfig;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;
use crate::state_dict::ReadNorm;

/// The names of the sizes, which have others in other families.
const NUM_HIDDENS: [&str; 2] = ["n_embd", "hidden_size"];
const NUM_HEADS: [&str; 2] = ["n_head", "num_attention_heads"];
const NUM_LAYERS: [&str; 2] = ["n_layer", "num_hidden_layers"];
const MAX_POSITIONS: [&str; 2] = ["n_positions", "max_position_embeddings"];

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
        load,
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

fn load<M: FromDecoder<DotProductScore>>(
    mut model: LanguageModel<DotProductScore>,
    file: &StateDict,
) -> Result<M, String> {
    // The model alone, as OpenAI's files have it, or within one with a head.
    let base = if file.contains("wte.weight") {
        ""
    } else {
        "transformer."
    };
    model.embedding.tokens = file.embedding(model.embedding.tokens, &format!("{base}wte"))?;
    load_positions(&mut model.embedding, file, &format!("{base}wpe"), 0)?;
    let layers = model.stack.layers.into_iter().enumerate();
    let layers = layers.map(|(at, layer)| load_layer(layer, file, &format!("{base}h.{at}.")));
    model.stack.layers = layers.collect::<Result<_, _>>()?;
    let norm = model.stack.norm;
    let norm = norm.map(|norm| file.norm(norm, &format!("{base}ln_f")));
    model.stack.norm = norm.transpose()?;
    M::from_decoder(model, file, "lm_head", &format!("{base}wte.weight"))
}

fn load_layer(
    mut layer: TransformerEncoderLayer<DotProductScore>,
    file: &StateDict,
    prefix: &str,
) -> Result<TransformerEncoderLayer<DotProductScore>, String> {
    let name = |name: &str| format!("{prefix}{name}");
    layer.attention = load_attention(layer.attention, file, prefix)?;
    let network = &mut layer.feed_forward;
    network.input = file.linear(network.input.clone(), conv1d(&name("mlp.c_fc"), None))?;
    network.output = file.linear(network.output.clone(), conv1d(&name("mlp.c_proj"), None))?;
    let places = [
        (&mut layer.attention_residual, "ln_1"),
        (&mut layer.feed_forward_residual, "ln_2"),
    ];
    for (residual, of_norm) in places {
        residual.norm = file.norm(residual.norm.clone(), &name(of_norm))?;
    }
    Ok(layer)
}

/// Queries, keys and values are parts of the outputs of one layer.
fn load_attention(
    mut attention: MultiHeadAttention<DotProductScore>,
    file: &StateDict,
    prefix: &str,
) -> Result<MultiHeadAttention<DotProductScore>, String> {
    let [size, _] = shape(&attention.query.weight);
    let part = |at: usize| conv1d(&format!("{prefix}attn.c_attn"), Some([at, size]));
    let output = attention.output;
    let output =
        output.map(|output| file.linear(output, conv1d(&format!("{prefix}attn.c_proj"), None)));
    attention.query = file.linear(attention.query, part(0))?;
    attention.key = file.linear(attention.key, part(1))?;
    attention.value = file.linear(attention.value, part(2))?;
    attention.output = output.transpose()?;
    Ok(attention)
}

/// The weight and bias of a `Conv1D`, or of the part `at` of three with `size` outputs each.
fn conv1d(name: &str, part: Option<[usize; 2]>) -> [Place; 2] {
    Place::weight_and_bias(name).map(|place| {
        let is_transposed = place.name.ends_with(".weight");
        Place {
            start: part.map_or(0, |[at, size]| at * size),
            rows: part.map(|[_, size]| 3 * size),
            is_transposed,
            ..place
        }
    })
}
