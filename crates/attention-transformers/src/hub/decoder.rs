//! Decoders whose fields and tensors have the names of Llama's.

use attention_core::{MultiHeadAttention, ScoringFunction};
use attention_import::{Place, Reason, StateDict};
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::shape;
use burn_fused_layers::harness::wide::wide;

use super::activation::activation;
use super::fields::Fields;
use super::fused::{Fused, fused, load_part};
use super::head::FromDecoder;
use super::names::{Names, first_of, load_positions};
use crate::decoder_layer::TransformerDecoderLayer;
use crate::embedding::TokenEmbeddingConfig;
use crate::encoder::TransformerEncoderConfig;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::feed_forward::FeedForward;
use crate::language_model::{LanguageModel, LanguageModelConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::{Norm, NormConfig};
use crate::state_dict::ReadNorm;

/// The sizes of attention, from the fields.
pub(super) struct Heads {
    pub(super) num_hiddens: usize,
    pub(super) num_heads: usize,
    pub(super) num_key_value_heads: usize,
    pub(super) head_size: usize,
}

impl Heads {
    pub(super) fn of(fields: &Fields) -> Result<Self, Reason> {
        let num_key_value_heads = fields.size("num_key_value_heads")?;
        Self::with_sizes(fields, num_key_value_heads, fields.size("head_dim")?)
    }

    /// Llama's sizes: without a `head_dim` the heads share `hidden_size`, and without `num_key_value_heads` each has
    /// its own keys.
    pub(super) fn of_llama(fields: &Fields) -> Result<Self, Reason> {
        let num_heads = fields.size("num_attention_heads")?;
        let key_value_heads = fields.optional_size("num_key_value_heads")?;
        let head_size = match fields.optional_size("head_dim")? {
            Some(head_size) => head_size,
            None => fields.heads_and_hiddens()?[1] / num_heads,
        };
        Self::with_sizes(fields, key_value_heads.unwrap_or(num_heads), head_size)
    }

    fn with_sizes(
        fields: &Fields,
        num_key_value_heads: usize,
        head_size: usize,
    ) -> Result<Self, Reason> {
        let num_heads = fields.size("num_attention_heads")?;
        let sizes = [num_key_value_heads, num_heads];
        fields.divides("num_key_value_heads", "num_attention_heads", sizes)?;
        Ok(Self {
            num_hiddens: fields.size("hidden_size")?,
            num_heads,
            num_key_value_heads,
            head_size,
        })
    }
}

/// A layer of grouped heads and a gated feed-forward network, whose activation is in the field `activation_name`.
pub(super) fn layer_config(
    fields: &Fields,
    heads: &Heads,
    activation_name: &str,
) -> Result<TransformerLayerConfig, Reason> {
    let feed_forward_size = fields.size("intermediate_size")?;
    let epsilon = fields.positive("rms_norm_eps")?;
    let config = TransformerLayerConfig::new(heads.num_hiddens, heads.num_heads, feed_forward_size);
    Ok(config
        .with_num_key_value_heads(Some(heads.num_key_value_heads))
        .with_head_size(Some(heads.head_size))
        .with_activation(activation(fields, activation_name, true)?)
        .with_norm(NormConfig::Rms { epsilon })
        .with_attention_bias(fields.flag("attention_bias", false)?)
        .with_feed_forward_bias(fields.flag("mlp_bias", false)?)
        .with_dropout(fields.dropout("resid_pdrop")?)
        .with_attention_dropout(fields.dropout("attention_dropout")?))
}

/// The configuration of a model with these layers, whose head is by default the embedding if `is_tied`.
pub(super) fn model_config(
    fields: &Fields,
    layer: TransformerLayerConfig,
    is_tied: bool,
) -> Result<LanguageModelConfig, Reason> {
    fields.expect_flag("is_causal", "since rows attend to those up to themselves")?;
    let vocab_size = fields.size("vocab_size")?;
    let embedding = TokenEmbeddingConfig::new(vocab_size, layer.num_hiddens);
    let num_layers = fields.num_layers("num_hidden_layers")?;
    let stack = TransformerEncoderConfig::new(layer, num_layers);
    let is_tied = fields.flag("tie_word_embeddings", is_tied)?;
    Ok(LanguageModelConfig::new(embedding, stack).with_tied(is_tied))
}

/// The names of a decoder without a head, and of its head: in a model with a head, alone, and in a model of texts and
/// pictures with today's names and the older ones.
const PLACES: [[&str; 2]; 7] = [
    ["model.", "lm_head"],
    ["", "lm_head"],
    ["transformer.", "lm_head"],
    ["model.language_model.", "lm_head"],
    ["language_model.model.", "language_model.lm_head"],
    ["model.decoder.", "lm_head"],
    ["decoder.", "lm_head"],
];

/// The names and layouts of a family's tensors, where they differ from Llama's.
pub(super) struct Layout {
    /// The names after the prefix of the decoder or of a layer.
    pub(super) names: Names,
    /// The number to add to the gains of normalizations.
    pub(super) offset: f64,
    pub(super) fused: Fused,
    /// Whether weights are `[in, out]`, as in `Conv1D`.
    pub(super) is_transposed: bool,
    /// The row of the first position, if positions are learned.
    pub(super) first_position: usize,
    /// Whether the output layers of feed-forward networks, which have no biases, are f32 in a model of half precision,
    /// because their results may overflow f16.
    pub(super) has_wide_output: bool,
}

pub(super) const LLAMA: Layout = Layout {
    names: Names(&[]),
    offset: 0.0,
    fused: Fused::Apart,
    is_transposed: false,
    first_position: 0,
    has_wide_output: false,
};

impl Layout {
    /// Loads the layers of a stack; each has its own prefix.
    fn load_each<L>(
        &self,
        layers: &mut Vec<L>,
        stack: &str,
        load: impl Fn(L, &str) -> Result<L, Reason>,
    ) -> Result<(), Reason> {
        let all = std::mem::take(layers).into_iter().enumerate();
        let prefix = |at| format!("{stack}{}{at}.", self.names.own("layers."));
        let all = all.map(|(at, layer)| load(layer, &prefix(at)));
        *layers = all.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn load_norm(
        &self,
        norm: &mut Norm,
        file: &StateDict,
        prefix: &str,
        name: &str,
    ) -> Result<(), Reason> {
        let name = format!("{prefix}{}", self.names.own(name));
        *norm = file.norm_of_offset(norm.clone(), &name, self.offset)?;
        Ok(())
    }

    /// The weight and bias of a linear layer.
    fn place(&self, name: &str) -> [Place; 2] {
        let mut place = Place::weight_and_bias(name);
        place[0].is_transposed = self.is_transposed;
        place
    }
}

/// `model` with the parameters of a file; `load_score` loads a score from the tensors with a prefix.
pub(super) fn load_decoder<S: ScoringFunction, M: FromDecoder<S>>(
    mut model: LanguageModel<S>,
    file: &StateDict,
    layout: &Layout,
    load_score: impl Fn(S, &str) -> Result<S, Reason>,
) -> Result<M, Reason> {
    let of_family = |name| layout.names.own(name);
    let (layers, norm) = (of_family("layers."), of_family("input_layernorm"));
    let embedding = format!("{}.weight", of_family("embed_tokens"));
    let names = [embedding, format!("{layers}0.{norm}.weight")];
    let is_there = |[base, _]: &&[&str; 2]| {
        let mut names = names.iter();
        names.any(|name| file.contains(&format!("{base}{name}")))
    };
    let [base, head] = PLACES.iter().find(is_there).unwrap_or(&PLACES[0]);
    let own = |name| format!("{base}{}", of_family(name));
    let embedding = own("embed_tokens");
    let embedding = match &model.head {
        Some(_) => &embedding,
        None => first_of(file, &[&embedding, head]),
    };
    model.embedding.tokens = file.embedding(model.embedding.tokens, embedding)?;
    let first = layout.first_position;
    load_positions(&mut model.embedding, file, &own("embed_positions"), first)?;
    layout.load_each(&mut model.stack.layers, base, |layer, prefix| {
        let mut layer = load_layer(layer, file, prefix, layout)?;
        let attention = format!("{prefix}self_attn.");
        layer.attention.attention.score = load_score(layer.attention.attention.score, &attention)?;
        Ok(layer)
    })?;
    file.optional_norm(&mut model.embedding.norm, &own("embed_norm"))?;
    if let Some(norm) = &mut model.stack.norm {
        layout.load_norm(norm, file, base, "norm")?;
    }
    M::from_decoder(model, file, head, &format!("{embedding}.weight"))
}

/// The layers of a stack.
pub(super) fn load_layers<S: ScoringFunction>(
    layers: &mut Vec<TransformerEncoderLayer<S>>,
    file: &StateDict,
    stack: &str,
    layout: &Layout,
) -> Result<(), Reason> {
    layout.load_each(layers, stack, |layer, prefix| {
        load_layer(layer, file, prefix, layout)
    })
}

/// Without normalizations of sublayer outputs, a layer's second one is named for its place after attention.
fn load_layer<S: ScoringFunction>(
    mut layer: TransformerEncoderLayer<S>,
    file: &StateDict,
    prefix: &str,
    layout: &Layout,
) -> Result<TransformerEncoderLayer<S>, Reason> {
    layer.attention = load_attention(layer.attention, file, [prefix, "self_attn"], layout)?;
    layer.feed_forward = load_feed_forward(layer.feed_forward, file, prefix, layout)?;
    let norm = |norm: &mut Norm, name| layout.load_norm(norm, file, prefix, name);
    let attention = &mut layer.attention_residual;
    let feed_forward = &mut layer.feed_forward_residual;
    norm(&mut attention.norm, "input_layernorm")?;
    let outputs = [&mut attention.output_norm, &mut feed_forward.output_norm];
    let [Some(of_attention), Some(of_feed_forward)] = outputs else {
        norm(&mut feed_forward.norm, "post_attention_layernorm")?;
        return Ok(layer);
    };
    norm(of_attention, "post_attention_layernorm")?;
    norm(&mut feed_forward.norm, "pre_feedforward_layernorm")?;
    norm(of_feed_forward, "post_feedforward_layernorm")?;
    Ok(layer)
}

/// The layers of a stack with attention to a memory.
pub(super) fn load_layers_with_memory<S: ScoringFunction>(
    layers: &mut Vec<TransformerDecoderLayer<S>>,
    file: &StateDict,
    stack: &str,
    layout: &Layout,
) -> Result<(), Reason> {
    layout.load_each(layers, stack, |layer, prefix| {
        load_layer_with_memory(layer, file, prefix, layout)
    })
}

/// A layer whose attention to a memory has the names of its self-attention with `cross_attn` instead of `self_attn`.
fn load_layer_with_memory<S: ScoringFunction>(
    mut layer: TransformerDecoderLayer<S>,
    file: &StateDict,
    prefix: &str,
    layout: &Layout,
) -> Result<TransformerDecoderLayer<S>, Reason> {
    let cross = [prefix, "cross_attn"];
    layer.attention = load_attention(layer.attention, file, [prefix, "self_attn"], layout)?;
    layer.cross_attention = load_attention(layer.cross_attention, file, cross, layout)?;
    layer.feed_forward = load_feed_forward(layer.feed_forward, file, prefix, layout)?;
    for (residual, name) in [
        (&mut layer.attention_residual, "input_layernorm"),
        (&mut layer.cross_attention_residual, "cross_layernorm"),
        (&mut layer.feed_forward_residual, "post_attention_layernorm"),
    ] {
        layout.load_norm(&mut residual.norm, file, prefix, name)?;
    }
    Ok(layer)
}

/// Queries, keys and values, and the output projection, of the attention `module` after a prefix.
pub(super) fn load_attention<S: ScoringFunction>(
    mut attention: MultiHeadAttention<S>,
    file: &StateDict,
    [prefix, module]: [&str; 2],
    layout: &Layout,
) -> Result<MultiHeadAttention<S>, Reason> {
    let own = |name: &str| format!("{prefix}{}", layout.names.own(&format!("{module}.{name}")));
    let place = |name: &str| layout.place(&own(name));
    let num_heads = attention.num_heads();
    let of = &mut attention;
    let inputs = [&mut of.query, &mut of.key, &mut of.value];
    if layout.fused == Fused::InHeads {
        for (at, linear) in inputs.into_iter().enumerate() {
            *linear = load_part(linear.clone(), file, &own("qkv_proj"), [at, num_heads])?;
        }
    } else {
        let places = if layout.fused == Fused::Whole {
            let outputs = inputs.each_ref().map(|linear| shape(&linear.weight)[1]);
            fused(&layout.place(&own("qkv_proj")), outputs)
        } else {
            ["q_proj", "k_proj", "v_proj"].map(place)
        };
        for (linear, place) in inputs.into_iter().zip(places) {
            *linear = file.linear(linear.clone(), place)?;
        }
    }
    let output = attention.output.map(|of| file.linear(of, place("o_proj")));
    attention.output = output.transpose()?;
    Ok(attention)
}

/// Loads the network, whose first layer is `mlp.up_proj` if there is a gate, and `mlp.fc1` otherwise.
fn load_feed_forward(
    mut network: FeedForward,
    file: &StateDict,
    prefix: &str,
    layout: &Layout,
) -> Result<FeedForward, Reason> {
    let own = |name: &str| format!("{prefix}{}", layout.names.own(name));
    let place = |name: &str| layout.place(&own(name));
    network.input = if let Some(of_gate) = network.gate.take() {
        let [gate, input] = if layout.fused == Fused::Whole {
            let [_, hidden_size] = shape(&network.input.weight);
            fused(&place("mlp.gate_up_proj"), [hidden_size; 2])
        } else {
            ["mlp.gate_proj", "mlp.up_proj"].map(place)
        };
        network.gate = Some(file.linear(of_gate, gate)?);
        file.linear(network.input, input)?
    } else {
        file.linear(network.input, place("mlp.fc1"))?
    };
    let [weight, bias] = place("mlp.down_proj");
    if !layout.has_wide_output {
        network.output = file.linear(network.output, [weight, bias])?;
        return Ok(network);
    }
    let [from, to] = shape(&network.output.weight);
    let found = file.find(&weight.name, &[to, from])?;
    let found = found.map(|stored| stored.transpose());
    let load = |data, device: &_, dtype| Tensor::from_data(data, (device, wide(dtype)));
    network.output.weight = file.load(network.output.weight, &weight.name, &found, load)?;
    Ok(network)
}
