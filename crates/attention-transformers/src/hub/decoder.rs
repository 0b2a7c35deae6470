//! Decoders whose fields and tensors have the names of Llama's.

use attention_core::import::{Place, StateDict};
use attention_core::{MultiHeadAttention, ScoringFunction};

use super::activation::activation;
use super::fields::Fields;
use super::head::load_head;
use crate::embedding::TokenEmbeddingConfig;
use crate::encoder::TransformerEncoderConfig;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::feed_forward::FeedForward;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;
use crate::state_dict::ReadNorm;

/// The sizes of attention, as the fields say them.
pub(super) struct Heads {
    pub(super) num_hiddens: usize,
    pub(super) num_heads: usize,
    pub(super) num_key_value_heads: usize,
    pub(super) head_size: usize,
}

impl Heads {
    pub(super) fn of(fields: &Fields) -> Result<Self, String> {
        let num_key_value_heads = fields.size("num_key_value_heads")?;
        Self::with_sizes(fields, num_key_value_heads, fields.size("head_dim")?)
    }

    /// Those of Llama: without a `head_dim` the heads share `hidden_size`, and without `num_key_value_heads` each has
    /// its own keys.
    pub(super) fn of_llama(fields: &Fields) -> Result<Self, String> {
        let sizes = [
            fields.size("num_attention_heads")?,
            fields.size("hidden_size")?,
        ];
        let [num_heads, num_hiddens] = sizes;
        let key_value_heads = fields.optional_size("num_key_value_heads")?;
        let head_size = match fields.optional_size("head_dim")? {
            Some(head_size) => head_size,
            None => {
                divides(fields, "num_attention_heads", "hidden_size", sizes)?;
                num_hiddens / num_heads
            }
        };
        Self::with_sizes(fields, key_value_heads.unwrap_or(num_heads), head_size)
    }

    fn with_sizes(
        fields: &Fields,
        num_key_value_heads: usize,
        head_size: usize,
    ) -> Result<Self, String> {
        let num_heads = fields.size("num_attention_heads")?;
        let sizes = [num_key_value_heads, num_heads];
        divides(fields, "num_key_value_heads", "num_attention_heads", sizes)?;
        Ok(Self {
            num_hiddens: fields.size("hidden_size")?,
            num_heads,
            num_key_value_heads,
            head_size,
        })
    }
}

/// # Errors
/// If the first of the sizes does not divide the second.
pub(super) fn divides(
    fields: &Fields,
    name: &str,
    of: &str,
    [divisor, size]: [usize; 2],
) -> Result<(), String> {
    if size.is_multiple_of(divisor) {
        return Ok(());
    }
    let expected = format!("a divisor of `{of}`, {size}");
    Err(fields.wrong(name, &expected, &divisor.to_string()))
}

/// A layer of grouped heads and a gated feed-forward network, whose activation is in the field `activation_name`.
pub(super) fn layer_config(
    fields: &Fields,
    heads: &Heads,
    activation_name: &str,
) -> Result<TransformerLayerConfig, String> {
    let feed_forward_size = fields.size("intermediate_size")?;
    let epsilon = fields.positive("rms_norm_eps")?;
    let Heads {
        num_hiddens,
        num_heads,
        ..
    } = *heads;
    let config = TransformerLayerConfig::new(num_hiddens, num_heads, feed_forward_size);
    Ok(config
        .with_num_key_value_heads(Some(heads.num_key_value_heads))
        .with_head_size(Some(heads.head_size))
        .with_activation(activation(fields, activation_name, true)?)
        .with_norm(NormConfig::Rms { epsilon })
        .with_attention_bias(fields.flag("attention_bias", false)?)
        .with_feed_forward_bias(fields.flag("mlp_bias", false)?)
        .with_attention_dropout(fields.dropout("attention_dropout")?))
}

/// The configuration of a model of these layers, whose head is the embedding by default if `is_tied` says so.
pub(super) fn model_config(
    fields: &Fields,
    layer: TransformerLayerConfig,
    is_tied: bool,
) -> Result<LanguageModelConfig, String> {
    let vocab_size = fields.size("vocab_size")?;
    let embedding = TokenEmbeddingConfig::new(vocab_size, layer.num_hiddens);
    let num_layers = fields.num_layers(&["num_hidden_layers"])?;
    let stack = TransformerEncoderConfig::new(layer, num_layers);
    let is_tied = fields.flag("tie_word_embeddings", is_tied)?;
    Ok(LanguageModelConfig::new(embedding, stack).with_tied(is_tied))
}

/// `model` with the parameters of a file. `offset` is added to the gains of normalizations; `load_score` fills a score
/// with the tensors that begin with a prefix.
pub(super) fn load_decoder<S: ScoringFunction>(
    model: LanguageModel<S>,
    file: &StateDict,
    offset: f64,
    load_score: impl Fn(S, &str) -> Result<S, String>,
) -> Result<LanguageModel<S>, String> {
    let mut model = model;
    model.embedding.tokens = file.embedding(model.embedding.tokens, "model.embed_tokens")?;
    let layers = model.stack.layers.into_iter().enumerate();
    let layers = layers.map(|(at, layer)| {
        let prefix = format!("model.layers.{at}.");
        let mut layer = load_layer(layer, file, &prefix, offset)?;
        let attention = format!("{prefix}self_attn.");
        layer.attention.attention.score = load_score(layer.attention.attention.score, &attention)?;
        Ok::<_, String>(layer)
    });
    model.stack.layers = layers.collect::<Result<_, _>>()?;
    let norm = model.stack.norm;
    let norm = norm.map(|norm| file.norm_of_offset(norm, "model.norm", offset));
    model.stack.norm = norm.transpose()?;
    load_head(model, file, "model.embed_tokens.weight")
}

/// Without normalizations of what sublayers add, the second one of a layer is named for its place after attention.
fn load_layer<S: ScoringFunction>(
    mut layer: TransformerEncoderLayer<S>,
    file: &StateDict,
    prefix: &str,
    offset: f64,
) -> Result<TransformerEncoderLayer<S>, String> {
    layer.attention = load_attention(layer.attention, file, &format!("{prefix}self_attn."))?;
    layer.feed_forward = load_feed_forward(layer.feed_forward, file, &format!("{prefix}mlp."))?;
    let is_sandwich = layer.attention_residual.output_norm.is_some();
    let [after_attention, before_feed_forward] = if is_sandwich {
        ["post_attention_layernorm", "pre_feedforward_layernorm"]
    } else {
        ["", "post_attention_layernorm"]
    };
    let places = [
        (
            &mut layer.attention_residual,
            "input_layernorm",
            after_attention,
        ),
        (
            &mut layer.feed_forward_residual,
            before_feed_forward,
            "post_feedforward_layernorm",
        ),
    ];
    for (residual, before, after) in places {
        let norm = |norm, name: &str| file.norm_of_offset(norm, &format!("{prefix}{name}"), offset);
        residual.norm = norm(residual.norm.clone(), before)?;
        if let Some(of_output) = residual.output_norm.take() {
            residual.output_norm = Some(norm(of_output, after)?);
        }
    }
    Ok(layer)
}

/// Queries, keys and values of their own, and the output projection.
pub(super) fn load_attention<S: ScoringFunction>(
    mut attention: MultiHeadAttention<S>,
    file: &StateDict,
    prefix: &str,
) -> Result<MultiHeadAttention<S>, String> {
    let place = |name: &str| Place::weight_and_bias(&format!("{prefix}{name}"));
    let output = attention.output;
    let output = output.map(|output| file.linear(output, place("o_proj")));
    attention.query = file.linear(attention.query, place("q_proj"))?;
    attention.key = file.linear(attention.key, place("k_proj"))?;
    attention.value = file.linear(attention.value, place("v_proj"))?;
    attention.output = output.transpose()?;
    Ok(attention)
}

fn load_feed_forward(
    mut network: FeedForward,
    file: &StateDict,
    prefix: &str,
) -> Result<FeedForward, String> {
    let place = |name: &str| Place::weight_and_bias(&format!("{prefix}{name}"));
    let gate = network.gate;
    let gate = gate.map(|gate| file.linear(gate, place("gate_proj")));
    network.gate = gate.transpose()?;
    network.input = file.linear(network.input, place("up_proj"))?;
    network.output = file.linear(network.output, place("down_proj"))?;
    Ok(network)
}
