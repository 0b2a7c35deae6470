//! Marian, BART and mBART.

use std::path::Path;

use attention_core::DotProductScore;
use attention_import::{ImportError, Reason, StateDict};
use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};

use super::activation::activation;
use super::decoder::{LLAMA, Layout, load_layers, load_layers_with_memory};
use super::fields::Fields;
use super::folder::load_model;
use super::head::{check_stacks, is_of_other_head, own_head};
use super::names::{Names, first_of, load_positions, prefix};
use crate::decoder::TransformerDecoderConfig;
use crate::embedding::{TokenEmbedding, TokenEmbeddingConfig};
use crate::encoder::TransformerEncoderConfig;
use crate::encoder_decoder::{EncoderDecoder, EncoderDecoderConfig};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;
use crate::position_embedding::{PositionEmbedding, PositionEmbeddingConfig};
use crate::residual::NormOrder;
use crate::state_dict::ReadNorm;
use crate::text_encoder::TextEncoder;

pub(super) const MODEL_TYPES: [&str; 3] = ["marian", "bart", "mbart"];

const HEAD: &str = "lm_head";

/// The families for which sentence-transformers takes the decoder's features, while for Marian it takes the encoder's.
pub(super) const HAVE_DECODERS: [&str; 2] = ["bart", "mbart"];

/// Common names of sizes of the encoder.
const ALIASES: [(&str, &str); 3] = [
    ("hidden_size", "d_model"),
    ("num_attention_heads", "encoder_attention_heads"),
    ("num_hidden_layers", "encoder_layers"),
];

/// The largest number of positions of sines and cosines.
const MAX_SINUSOIDS: usize = 10_000;

const LAYOUT: Layout = Layout {
    names: Names(&[
        ("self_attn.o_proj", "self_attn.out_proj"),
        ("input_layernorm", "self_attn_layer_norm"),
        ("cross_attn.q_proj", "encoder_attn.q_proj"),
        ("cross_attn.k_proj", "encoder_attn.k_proj"),
        ("cross_attn.v_proj", "encoder_attn.v_proj"),
        ("cross_attn.o_proj", "encoder_attn.out_proj"),
        ("cross_layernorm", "encoder_attn_layer_norm"),
        ("mlp.fc1", "fc1"),
        ("mlp.down_proj", "fc2"),
        ("post_attention_layernorm", "final_layer_norm"),
    ]),
    first_position: 2,
    ..LLAMA
};

/// Loads a Marian (`model_type` `marian`: the translators OPUS-MT), a BART (`bart`) or an mBART (`mbart`) from a
/// Hugging Face folder: layer normalization, biases everywhere, and a bias of the logits, with the embedding as the
/// head.
///
/// | | positions | normalization |
/// | --- | --- | --- |
/// | Marian | sines, then cosines, or the tables of the file | after sublayers |
/// | BART | learned, from the third row of their table | after the embedding and sublayers |
/// | mBART | as BART's | after the embedding, before sublayers, after each stack |
///
/// - `model.shared.weight`, the embedding of both stacks, or one of the names to which it is tied; for a Marian without
///   `share_encoder_decoder_embeddings`, `model.encoder.embed_tokens.weight` and `model.decoder.embed_tokens.weight`
/// - after `model.encoder.` and `model.decoder.`: `embed_positions.weight`, `layernorm_embedding`, `layer_norm`
/// - for layer `n`, after `model.encoder.layers.n.`: `self_attn.q_proj`, `k_proj`, `v_proj`, `out_proj`,
///   `self_attn_layer_norm`, `fc1`, `fc2`, `final_layer_norm`, each with `weight` and `bias`
/// - the same after `model.decoder.layers.n.`, and the names of attention again with `encoder_attn` instead of
///   `self_attn`
/// - `final_logits_bias`, zeros if absent; `lm_head.weight`, if its elements differ from the embedding's
///
/// The prefix `model.` may be missing. BART's stacks have different positions, so each has its own embedding of tokens,
/// which diverge in training.
///
/// `num_hidden_layers`, which older files have beside `encoder_layers`, must be the same number: version 5 of
/// `transformers` reads it instead. Generated texts begin with `decoder_start_token_id` and end with `eos_token_id`. In
/// an mBART they begin with the language.
///
/// # Errors
/// As [`hub`](super) describes.
///
/// ```no_run
/// use attention_core::NewRows;
/// use attention_transformers::GenerateConfig;
/// use attention_transformers::hub::load_bart;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let model = load_bart("opus-mt-en-de", &device)?;
/// // "My name is Wolfgang", by its tokenizer, which is not ours.
/// let text = [[1153, 542, 24, 31319, 0]];
/// let memory = model.encode(Tensor::from_ints(text, &device), NewRows::All);
/// let config = GenerateConfig::new(20).with_stop_tokens(vec![0]);
/// let texts = config.generate(&model, model.state(memory), &[[58100]]).run();
/// println!("{:?}", texts[0].tokens);
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_bart(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<EncoderDecoder<DotProductScore>, ImportError> {
    load_with(folder.as_ref(), device, |_| false)
}

fn load_with(
    folder: &Path,
    device: &Device,
    leaves_alone: fn(&str) -> bool,
) -> Result<EncoderDecoder<DotProductScore>, ImportError> {
    load_model(
        folder,
        &MODEL_TYPES,
        |fields| {
            let is_shared = fields.flag("share_encoder_decoder_embeddings", true)?;
            let is_tied = fields.flag("tie_word_embeddings", true)?;
            let config = config(fields, is_shared)?;
            Ok((config.init(device), config.embedding, is_shared, is_tied))
        },
        |(mut model, embedding, is_shared, is_tied), file| {
            if model.source_embedding.is_none() && has_two_tables(file, &model.embedding)? {
                model.source_embedding = Some(embedding.init(device));
            }
            load(model, file, is_shared, is_tied)
        },
        |name| name.ends_with("coder.version") || leaves_alone(name),
    )
}

/// The encoder of [`load_bart`], also from a file with another head.
pub(super) fn load_bart_encoder(
    folder: &Path,
    device: &Device,
) -> Result<TextEncoder<DotProductScore>, ImportError> {
    let model = load_with(folder, device, is_of_other_head)?;
    Ok(TextEncoder {
        embedding: model.source_embedding.unwrap_or(model.embedding),
        stack: model.encoder,
        causal: false,
    })
}

fn config(fields: &Fields, is_shared: bool) -> Result<EncoderDecoderConfig, Reason> {
    let model_type = fields.text("model_type")?;
    let is_marian = model_type == "marian";
    fields.expect_aliases(&ALIASES)?;
    let reason = "since rows of the decoder attend to those up to themselves";
    fields.expect_flag("is_causal", reason)?;
    let num_hiddens = fields.size("d_model")?;
    let dropout = fields.dropout("dropout")?;
    let layer = |stack: &str| {
        let heads = format!("{stack}_attention_heads");
        let num_heads = fields.size(&heads)?;
        fields.divides(&heads, "d_model", [num_heads, num_hiddens])?;
        let feed_forward_size = fields.size(&format!("{stack}_ffn_dim"))?;
        let layer = TransformerLayerConfig::new(num_hiddens, num_heads, feed_forward_size)
            .with_activation(activation(fields, "activation_function", false)?)
            .with_norm_order(if model_type == "mbart" {
                NormOrder::Pre
            } else {
                NormOrder::Post
            })
            .with_dropout(dropout)
            .with_attention_dropout(fields.dropout("attention_dropout")?)
            .with_feed_forward_dropout(fields.dropout("activation_dropout")?);
        Ok::<_, Reason>((layer, fields.num_layers(&format!("{stack}_layers"))?))
    };
    let vocab_size = fields.size("vocab_size")?;
    let target_vocab_size = match fields.optional_size("decoder_vocab_size")? {
        Some(size) if !is_shared => size,
        _ => vocab_size,
    };
    let max_positions = fields.size("max_position_embeddings")?;
    let positions = if is_marian {
        sinusoidal(fields, max_positions, num_hiddens)?
    } else {
        PositionEmbeddingConfig::Learned { max_positions }
    };
    let embedding = TokenEmbeddingConfig::new(target_vocab_size, num_hiddens)
        .with_positions(positions)
        .with_scaled(fields.flag("scale_embedding", false)?)
        .with_norm((!is_marian).then(NormConfig::layer))
        .with_dropout(dropout);
    let source = (!is_marian || !is_shared).then(|| TokenEmbeddingConfig {
        vocab_size,
        ..embedding.clone()
    });
    let (encoder_layer, num_layers) = layer("encoder")?;
    let (decoder_layer, num_decoder_layers) = layer("decoder")?;
    let encoder = TransformerEncoderConfig::new(encoder_layer, num_layers);
    let decoder = TransformerDecoderConfig::new(decoder_layer, num_decoder_layers);
    let config = EncoderDecoderConfig::new(embedding, encoder, decoder);
    Ok(config.with_source_embedding(source).with_head_bias(true))
}

fn sinusoidal(
    fields: &Fields,
    max_positions: usize,
    size: usize,
) -> Result<PositionEmbeddingConfig, Reason> {
    if !size.is_multiple_of(2) {
        let expected = "an even number, for sines and cosines";
        return Err(fields.wrong("d_model", expected, size));
    }
    if max_positions > MAX_SINUSOIDS {
        let expected = format!("at most {MAX_SINUSOIDS}");
        return Err(fields.wrong("max_position_embeddings", &expected, max_positions));
    }
    Ok(PositionEmbeddingConfig::Sinusoidal { max_positions })
}

fn load(
    mut model: EncoderDecoder<DotProductScore>,
    file: &StateDict,
    is_shared: bool,
    is_tied: bool,
) -> Result<EncoderDecoder<DotProductScore>, Reason> {
    let base = base(file);
    let names = ["shared", "encoder.embed_tokens", "decoder.embed_tokens"]
        .map(|name| format!("{base}{name}"));
    let [shared, of_encoder, of_decoder] = names.each_ref().map(String::as_str);
    let all = [shared, of_encoder, of_decoder, HEAD];
    let all = &all[..if is_tied { 4 } else { 3 }];
    let [source, target] = if is_shared {
        [first_of(file, all); 2]
    } else {
        [of_encoder, first_of(file, &all[2..])]
    };
    let embeddings = [
        (Some(&mut model.embedding), "decoder", target),
        (model.source_embedding.as_mut(), "encoder", source),
    ];
    for (embedding, stack, tokens) in embeddings {
        let Some(embedding) = embedding else { continue };
        let name = |name: &str| format!("{base}{stack}.{name}");
        embedding.tokens = file.embedding(embedding.tokens.clone(), tokens)?;
        let positions = name("embed_positions");
        load_positions(embedding, file, &positions, LAYOUT.first_position)?;
        if let Some(PositionEmbedding::Sinusoidal(encoding)) = &mut embedding.positions {
            encoding.sinusoids = sinusoids(&encoding.sinusoids, file, &positions)?;
        }
        file.optional_norm(&mut embedding.norm, &name("layernorm_embedding"))?;
    }
    let tokens = &model.embedding.tokens;
    let [vocab_size, _] = tokens.weight.dims();
    if is_shared {
        check_stacks(file, &all[..3], target, tokens)?;
    }
    const BIAS: &str = "final_logits_bias";
    if let Some(bias) = model.head_bias.take_if(|_| file.contains(BIAS)) {
        let found = file.find(BIAS, &[1, vocab_size])?;
        let bias = file.load(bias, BIAS, &found, |data, device, dtype| {
            Tensor::<2>::from_data(data, (device, dtype)).reshape([vocab_size])
        })?;
        model.head_bias = Some(bias);
    }
    if let Some(mut head) = own_head(file, [HEAD, &format!("{target}.weight")], tokens)? {
        head.bias = model.head_bias.take();
        model.head = Some(head);
    }
    let [encoder, decoder] = ["encoder.", "decoder."].map(|stack| format!("{base}{stack}"));
    file.optional_norm(&mut model.encoder.norm, &format!("{encoder}layer_norm"))?;
    file.optional_norm(&mut model.decoder.norm, &format!("{decoder}layer_norm"))?;
    load_layers(&mut model.encoder.layers, file, &encoder, &LAYOUT)?;
    load_layers_with_memory(&mut model.decoder.layers, file, &decoder, &LAYOUT)?;
    Ok(model)
}

/// The prefix of the stacks.
fn base(file: &StateDict) -> &'static str {
    prefix(file, &["model.", ""], "encoder.layers.0.fc1.weight")
}

/// Whether the stacks, which share an embedding of tokens, have different positions in a file.
fn has_two_tables(file: &StateDict, of: &TokenEmbedding) -> Result<bool, Reason> {
    let stacks = ["encoder", "decoder"];
    let names = stacks.map(|stack| format!("{}{stack}.embed_positions.weight", base(file)));
    let [one, other] = names.each_ref().map(String::as_str);
    let Some(PositionEmbedding::Sinusoidal(encoding)) = &of.positions else {
        return Ok(false);
    };
    let [_, rows, size] = encoding.sinusoids.dims();
    match [one, other].map(|name| file.contains(name)) {
        [true, true] => Ok(!file.is_same([one, other], &[rows, size])?),
        [has_one, has_other] => Ok(has_one != has_other),
    }
}

/// The table of positions `name` of a file; without one, all sines followed by all cosines, computed more exactly than
/// the `interleaved` ones.
fn sinusoids(interleaved: &Tensor<3>, file: &StateDict, name: &str) -> Result<Tensor<3>, Reason> {
    let shape @ [_, rows, size] = interleaved.dims();
    let name = format!("{name}.weight");
    if file.contains(&name) {
        let table = interleaved.clone().reshape([rows, size]);
        let table = file.parameter(Param::from_tensor(table), &name)?;
        return Ok(table.val().unsqueeze());
    }
    let half = size / 2;
    let element = |at: usize| {
        let [position, feature] = [at / size, at % size];
        let frequency = 10_000_f64.powf(-2.0 * (feature % half) as f64 / size as f64);
        let angle = position as f64 * frequency;
        let is_sine = feature < half;
        (if is_sine { angle.sin() } else { angle.cos() }) as f32
    };
    let elements: Vec<f32> = (0..rows * size).map(element).collect();
    let options = (&interleaved.device(), interleaved.dtype());
    Ok(Tensor::from_data(TensorData::new(elements, shape), options))
}
