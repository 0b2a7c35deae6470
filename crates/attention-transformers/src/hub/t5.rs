//! T5.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::position::{RelativePositionBias, RelativePositionBiasConfig};
use attention_core::score::DotProductScoreConfig;
use attention_import::{ImportError, Reason, StateDict};
use burn::tensor::Device;

use super::activation::activation_pair;
use super::decoder::{LLAMA, Layout, load_layers, load_layers_with_memory};
use super::fields::Fields;
use super::folder::load_model;
use super::head::{check_stacks, own_head};
use super::names::{Names, first_of, prefix};
use super::sentences::refuse_dense;
use crate::decoder::TransformerDecoderConfig;
use crate::embedding::TokenEmbeddingConfig;
use crate::encoder::{TransformerEncoder, TransformerEncoderConfig};
use crate::encoder_decoder::{EncoderDecoder, EncoderDecoderConfig};
use crate::feed_forward::FeedForwardActivation;
use crate::layer_config::TransformerLayerConfig;
use crate::norm::{Norm, NormConfig};
use crate::state_dict::ReadNorm;
use crate::text_encoder::TextEncoder;

/// The name of the embedding, and its names within each stack, which older files have in addition.
const EMBEDDINGS: [&str; 3] = ["shared", "encoder.embed_tokens", "decoder.embed_tokens"];

const HEAD: &str = "lm_head";

/// The prefix of a model with a head for classes.
const WITH_CLASSES: &str = "transformer.";

/// Common names of sizes.
const ALIASES: [(&str, &str); 4] = [
    ("hidden_size", "d_model"),
    ("num_attention_heads", "num_heads"),
    ("num_hidden_layers", "num_layers"),
    ("head_dim", "d_kv"),
];

pub(super) const MODEL_TYPES: [&str; 2] = ["t5", "mt5"];

/// The largest number of elements of a table of biases, so that a config cannot exhaust memory.
const MAX_BIASES: usize = 1 << 24;

/// A bias in the first files that is not used.
const UNUSED: &str = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

/// The names of a layer whose feed-forward network is the sublayer `at`.
macro_rules! layout {
    ($at:literal) => {
        Layout {
            names: Names(&[
                ("layers.", "block."),
                ("self_attn.q_proj", "layer.0.SelfAttention.q"),
                ("self_attn.k_proj", "layer.0.SelfAttention.k"),
                ("self_attn.v_proj", "layer.0.SelfAttention.v"),
                ("self_attn.o_proj", "layer.0.SelfAttention.o"),
                ("input_layernorm", "layer.0.layer_norm"),
                ("cross_attn.q_proj", "layer.1.EncDecAttention.q"),
                ("cross_attn.k_proj", "layer.1.EncDecAttention.k"),
                ("cross_attn.v_proj", "layer.1.EncDecAttention.v"),
                ("cross_attn.o_proj", "layer.1.EncDecAttention.o"),
                ("cross_layernorm", "layer.1.layer_norm"),
                ("mlp.gate_proj", concat!($at, ".DenseReluDense.wi_0")),
                ("mlp.up_proj", concat!($at, ".DenseReluDense.wi_1")),
                ("mlp.fc1", concat!($at, ".DenseReluDense.wi")),
                ("mlp.down_proj", concat!($at, ".DenseReluDense.wo")),
                ("post_attention_layernorm", concat!($at, ".layer_norm")),
            ]),
            has_wide_output: true,
            ..LLAMA
        }
    };
}

const ENCODER: Layout = layout!("layer.1");
const DECODER: Layout = layout!("layer.2");

/// Loads a T5, of version 1.0 or 1.1 (`model_type` `t5`), or an mT5 (`mt5`) from a Hugging Face folder: RMS norms
/// before the sublayers, dot products without a scale, no biases of linear layers.
///
/// - `shared.weight`, the embedding of both stacks, or one of the names to which it is tied
/// - `encoder.final_layer_norm.weight` and `decoder.final_layer_norm.weight`
/// - for layer `n`, after `encoder.block.n.layer.`: `0.SelfAttention.q.weight`, `k`, `v`, `o`, `1.DenseReluDense`, and
///   `0.layer_norm.weight`, `1.layer_norm.weight`
/// - the same after `decoder.block.n.layer.`, with `1.EncDecAttention` between the other two
/// - after `DenseReluDense.`: `wi.weight`, with a gate `wi_0.weight` (activated) and `wi_1.weight`; `wo.weight`
/// - `lm_head.weight`, if the head is not tied: if its elements differ from `shared.weight`, whatever
///   `tie_word_embeddings` says, as in `transformers`
/// - `relative_attention_bias.weight` in the self-attention of layer 0 of each stack: the position bias of all layers
///   of the stack, [one parameter](crate::TransformerEncoder::position_bias)
///
/// The features are multiplied by `1 / sqrt(d_model)` before the head if `scale_decoder_outputs` is true or, without
/// this field, unless `tie_word_embeddings` is false; never in an mT5.
///
/// Generated texts begin with `decoder_start_token_id`, 0, and end with `eos_token_id`, 1. There is no dropout after
/// the last normalizations.
///
/// On a device of half precision `wo` stays in f32, and so do the rows that its results are added to, up to the next
/// normalization, as in `transformers`: its results may overflow f16.
///
/// # Errors
/// As [`hub`](super) describes.
///
/// ```no_run
/// use attention_core::NewRows;
/// use attention_transformers::hub::load_t5;
/// use attention_transformers::GenerateConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let model = load_t5("t5-small", &device)?;
/// // "translate English to German: The house is wonderful.", by its tokenizer, which is not ours.
/// let text = [[13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5, 1]];
/// let memory = model.encode(Tensor::from_ints(text, &device), NewRows::All);
/// let config = GenerateConfig::new(20).with_stop_tokens(vec![1]);
/// let texts = config.generate(&model, model.state(memory), &[[0]]).run();
/// println!("{:?}", texts[0].tokens);
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_t5(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<EncoderDecoder<DotProductScore>, ImportError> {
    load_model(
        folder.as_ref(),
        &MODEL_TYPES,
        |fields| {
            let is_tied = fields.flag("tie_word_embeddings", true)?;
            let model = config(fields)?.init_with(score, score, score, device);
            Ok((model, is_tied))
        },
        |(model, is_tied), file| load(model, file, is_tied),
        |name| name == UNUSED,
    )
}

/// Loads the encoder of a T5 or mT5 from a Hugging Face folder: from a whole model, whose decoder is ignored, or from a
/// `T5EncoderModel`, as used for sentence embeddings and models of pictures.
///
/// The names are those of [`load_t5`], with or without `transformer.` before them; the embedding may be
/// `encoder.embed_tokens.weight` alone. Heads for classes or spans of answers are ignored.
///
/// # Errors
/// As [`hub`](super) describes.
pub fn load_t5_encoder(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<TextEncoder<DotProductScore>, ImportError> {
    refuse_dense(folder.as_ref())?;
    load_encoder(folder.as_ref(), device)
}

/// [`load_t5_encoder`], regardless of `modules.json`.
pub(super) fn load_encoder(
    folder: &Path,
    device: &Device,
) -> Result<TextEncoder<DotProductScore>, ImportError> {
    load_model(
        folder,
        &MODEL_TYPES,
        |fields| {
            let config = config(fields)?;
            Ok(TextEncoder {
                embedding: config.embedding.init(device),
                stack: config.encoder.init_with(score, device),
                causal: false,
            })
        },
        |mut model, file| {
            let first = "encoder.block.0.layer.0.layer_norm.weight";
            let base = prefix(file, &["", WITH_CLASSES], first);
            let names = EMBEDDINGS.map(|name| format!("{base}{name}"));
            let name = first_of(file, &names.each_ref().map(String::as_str));
            model.embedding.tokens = file.embedding(model.embedding.tokens, name)?;
            load_stack(&mut model.stack, file, base)?;
            Ok(model)
        },
        |name| {
            let own = name.strip_prefix(WITH_CLASSES).unwrap_or(name);
            !own.starts_with("encoder.") || own.starts_with(EMBEDDINGS[1])
        },
    )
}

/// Dot products without a scale.
fn score(_: usize) -> DotProductScore {
    DotProductScoreConfig::new().with_scale(Some(1.0)).init()
}

fn config(fields: &Fields) -> Result<EncoderDecoderConfig, Reason> {
    fields.expect_aliases(&ALIASES)?;
    let reason = "since rows of the decoder attend to those up to themselves";
    fields.expect_flag("is_causal", reason)?;
    let num_hiddens = fields.size("d_model")?;
    let num_heads = fields.size("num_heads")?;
    let dropout = fields.dropout("dropout_rate")?;
    let layer = TransformerLayerConfig::new(num_hiddens, num_heads, fields.size("d_ff")?)
        .with_head_size(Some(fields.size("d_kv")?))
        .with_norm(NormConfig::Rms {
            epsilon: fields.positive("layer_norm_epsilon")?,
        })
        .with_activation(activation(fields)?)
        .with_attention_bias(false)
        .with_feed_forward_bias(false)
        .with_dropout(dropout)
        .with_attention_dropout(dropout)
        .with_feed_forward_dropout(dropout);
    let bias = position_bias(fields, num_heads)?;
    let of_decoder = bias.clone().with_bidirectional(false);
    let num_layers = fields.num_layers("num_layers")?;
    let num_decoder_layers = match fields.value("num_decoder_layers") {
        Some(_) => fields.num_layers("num_decoder_layers")?,
        None => num_layers,
    };
    let encoder = TransformerEncoderConfig::new(layer.clone(), num_layers);
    let decoder = TransformerDecoderConfig::new(layer, num_decoder_layers);
    let is_mt5 = fields.text("model_type")? == "mt5";
    let is_tied = fields.flag("tie_word_embeddings", true)?;
    // In a file that has the field, null is false.
    const SCALED: &str = "scale_decoder_outputs";
    let is_scaled = fields.flag(SCALED, is_tied && !fields.has(SCALED))? && !is_mt5;
    let embedding = TokenEmbeddingConfig::new(fields.size("vocab_size")?, num_hiddens);
    let config = EncoderDecoderConfig::new(
        embedding.with_dropout(dropout),
        encoder.with_position_bias(Some(bias)),
        decoder.with_position_bias(Some(of_decoder)),
    );
    let scale = 1.0 / (num_hiddens as f64).sqrt();
    Ok(config.with_feature_scale(if is_scaled { scale } else { 1.0 }))
}

/// The activation, gated if its name begins with `gated-`. `gated-gelu` means the approximation by `tanh`.
fn activation(fields: &Fields) -> Result<FeedForwardActivation, Reason> {
    const FIELD: &str = "feed_forward_proj";
    let name = fields.optional_text(FIELD)?.unwrap_or("relu");
    let (is_gated, own) = match name.strip_prefix("gated-") {
        Some("gelu") => (true, "gelu_new"),
        Some(own) => (true, own),
        None => (false, name),
    };
    let Some([plain, gated]) = activation_pair(own) else {
        return Err(fields.unknown(FIELD, &["relu", "gated-gelu", "gated-silu"], name));
    };
    // What `transformers` makes of the name, and writes beside it.
    fields.expect_text("dense_act_fn", own)?;
    if fields.flag("is_gated_act", is_gated)? != is_gated {
        let expected = format!("{is_gated}, as in `{FIELD}`");
        return Err(fields.wrong("is_gated_act", &expected, !is_gated));
    }
    Ok(if is_gated { gated } else { plain })
}

/// The bias of the encoder, with buckets for two directions.
fn position_bias(fields: &Fields, num_heads: usize) -> Result<RelativePositionBiasConfig, Reason> {
    const BUCKETS: &str = "relative_attention_num_buckets";
    const DISTANCE: &str = "relative_attention_max_distance";
    let config = RelativePositionBiasConfig::new(num_heads);
    let buckets = fields.optional_size(BUCKETS)?.unwrap_or(config.num_buckets);
    if buckets < 4 || !buckets.is_multiple_of(2) {
        return Err(fields.wrong(BUCKETS, "an even number, at least 4", buckets));
    }
    let most = MAX_BIASES / num_heads;
    if buckets > most {
        let expected = format!("at most {most}, for {num_heads} heads");
        return Err(fields.wrong(BUCKETS, &expected, buckets));
    }
    let distance = fields.optional_size(DISTANCE)?;
    let distance = distance.unwrap_or(config.max_distance);
    // Half the buckets of the decoder, which are for one direction, have a single distance each.
    if distance <= buckets / 2 {
        let expected = format!("more than half of `{BUCKETS}`, {}", buckets / 2);
        return Err(fields.wrong(DISTANCE, &expected, distance));
    }
    Ok(config.with_num_buckets(buckets).with_max_distance(distance))
}

fn load(
    mut model: EncoderDecoder<DotProductScore>,
    file: &StateDict,
    is_tied: bool,
) -> Result<EncoderDecoder<DotProductScore>, Reason> {
    let [shared, of_encoder, of_decoder] = EMBEDDINGS;
    let names = [shared, of_encoder, of_decoder, HEAD];
    let name = first_of(file, if is_tied { &names } else { &EMBEDDINGS });
    model.embedding.tokens = file.embedding(model.embedding.tokens, name)?;
    let tokens = &model.embedding.tokens;
    check_stacks(file, &EMBEDDINGS, name, tokens)?;
    model.head = own_head(file, [HEAD, &format!("{name}.weight")], tokens)?;
    load_stack(&mut model.encoder, file, "")?;
    let decoder = &mut model.decoder;
    load_layers_with_memory(&mut decoder.layers, file, "decoder.", &DECODER)?;
    let ends = (&mut decoder.norm, &mut decoder.position_bias);
    load_ends(ends, file, "decoder")?;
    Ok(model)
}

/// The encoder with the prefix `base`.
fn load_stack(
    encoder: &mut TransformerEncoder<DotProductScore>,
    file: &StateDict,
    base: &str,
) -> Result<(), Reason> {
    let stack = format!("{base}encoder.");
    load_layers(&mut encoder.layers, file, &stack, &ENCODER)?;
    let ends = (&mut encoder.norm, &mut encoder.position_bias);
    load_ends(ends, file, &format!("{base}encoder"))
}

/// The final normalization and the position bias of a stack.
fn load_ends(
    (norm, bias): (&mut Option<Norm>, &mut Option<RelativePositionBias>),
    file: &StateDict,
    stack: &str,
) -> Result<(), Reason> {
    file.optional_norm(norm, &format!("{stack}.final_layer_norm"))?;
    if let Some(RelativePositionBias { embedding, .. }) = bias {
        let of_first = "block.0.layer.0.SelfAttention.relative_attention_bias";
        *embedding = file.embedding(embedding.clone(), &format!("{stack}.{of_first}"))?;
    }
    Ok(())
}
