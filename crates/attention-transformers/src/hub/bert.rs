//! BERT.

use std::path::Path;

use attention_core::DotProductScore;
use attention_core::import::{ImportError, Place, StateDict};
use burn::tensor::Device;
use tensor_files::shown;

use super::activation::activation;
use super::decoder::divides;
use super::fields::Fields;
use super::folder::{load_model, load_part, refuse_packed};
use super::head::{IS_TIED, check_copy};
use crate::embedding::{
    PositionEmbedding, PositionEmbeddingConfig, TokenEmbedding, TokenEmbeddingConfig,
};
use crate::encoder::{TransformerEncoder, TransformerEncoderConfig};
use crate::encoder_layer::TransformerEncoderLayer;
use crate::layer_config::TransformerLayerConfig;
use crate::masked_language_model::{MaskedLanguageModel, MaskedLanguageModelConfig};
use crate::norm::{Norm, NormConfig};
use crate::residual::NormOrder;
use crate::state_dict::ReadNorm;
use crate::text_encoder::TextEncoder;

/// The tensors of other heads, which models of both pretraining tasks have, and buffers of older files.
const LEFT_ALONE: [&str; 4] = [
    "bert.pooler.",
    "cls.seq_relationship.",
    "bert.embeddings.position_ids",
    "bert.embeddings.token_type_ids",
];

/// The beginning of the names of a model that has a head.
const WITH_HEAD: &str = "bert.";

const EMBEDDING: &str = "bert.embeddings.word_embeddings";
const BIAS: &str = "cls.predictions.bias";
const OWN_WEIGHT: &str = "cls.predictions.decoder.weight";
const OWN_BIAS: &str = "cls.predictions.decoder.bias";

/// Loads a BERT with the head of its masked language model (`model_type` `bert`) from a folder of Hugging Face's:
/// learned positions, two types of tokens, layer normalization after the embedding and after the sublayers.
///
/// - after `bert.embeddings.`: `word_embeddings.weight` (also the last layer of the head, unless `tie_word_embeddings`
///   is false), `position_embeddings.weight`, `token_type_embeddings.weight`, `LayerNorm`
/// - of layer `n`, after `bert.encoder.layer.n.`: `attention.self.query`, `key`, `value`, `attention.output.dense`,
///   `attention.output.LayerNorm`, `intermediate.dense`, `output.dense`, `output.LayerNorm`, each with `weight` and
///   `bias`
/// - after `cls.predictions.`: `transform.dense`, `transform.LayerNorm`, `bias`; with a head of its own
///   `decoder.weight` and `decoder.bias`
///
/// Normalizations of older files have `gamma` and `beta`. The pooler and the head of the other pretraining task are
/// left alone. [`MaskedLanguageModel::forward`] takes Hugging Face's `token_type_ids`, and the number of tokens of each
/// text in the place of an `attention_mask`.
///
/// # Errors
/// As [`hub`](super) says.
///
/// ```no_run
/// use attention_core::NewRows;
/// use attention_transformers::hub::load_bert;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let model = load_bert("bert-base-uncased", &device)?;
/// // "[CLS] paris is the [MASK] of france . [SEP]", by its tokenizer, which is not ours.
/// let tokens = [[101, 3000, 2003, 1996, 103, 1997, 2605, 1012, 102]];
/// let features = model.features(Tensor::from_ints(tokens, &device), None, NewRows::All);
/// // Of the masked token alone, the fifth.
/// let token = model.logits(features.narrow(1, 4, 1)).argmax(2);
/// println!("{token}");
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_bert(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<MaskedLanguageModel<DotProductScore>, ImportError> {
    load_model(
        folder.as_ref(),
        "bert",
        |fields| Ok(config(fields)?.init(device)),
        load,
        |name| LEFT_ALONE.iter().any(|start| name.starts_with(start)),
    )
}

/// Loads a BERT without a head (`model_type` `bert`) from a folder of Hugging Face's, such as the models of sentences
/// MiniLM, BGE and E5 are: for [features](TextEncoder::features), and [embeddings](TextEncoder::mean_features) of
/// texts.
///
/// The names are those of [`load_bert`], with or without `bert.` before them. The pooler and heads are left alone.
///
/// # Errors
/// As [`hub`](super) says.
///
/// ```no_run
/// use attention_core::NewRows;
/// use attention_transformers::hub::load_bert_encoder;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let model = load_bert_encoder("all-MiniLM-L6-v2", &device)?;
/// // Two texts by its tokenizer, which is not ours, the second shorter: "[CLS] .. [SEP]" and padding.
/// let tokens = Tensor::from_ints([[101, 2023, 2003, 102], [101, 2204, 102, 0]], &device);
/// let embeddings = model.mean_features(tokens, None, NewRows::First(&[4, 3]));
/// let similarities = embeddings.clone().matmul(embeddings.transpose());
/// assert_eq!(similarities.dims(), [2, 2]);
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_bert_encoder(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<TextEncoder<DotProductScore>, ImportError> {
    load_part(
        folder.as_ref(),
        "bert",
        |fields| {
            refuse_packed(fields)?;
            let MaskedLanguageModelConfig {
                embedding, stack, ..
            } = config(fields)?;
            Ok(TextEncoder {
                embedding: embedding.init(device),
                stack: stack.init(device),
            })
        },
        |model, file| {
            let has_prefix = file.contains(&format!("{EMBEDDING}.weight"));
            let prefix = if has_prefix { WITH_HEAD } else { "" };
            let TextEncoder { embedding, stack } = model;
            let model = TextEncoder {
                embedding: load_embedding(embedding, file, prefix)?,
                stack: load_stack(stack, file, prefix)?,
            };
            let encoder = format!("{prefix}encoder.");
            let left = file
                .unread()
                .into_iter()
                .find(|name| name.starts_with(&encoder));
            match left {
                None => Ok(model),
                Some(name) => Err(format!(
                    "expected no tensor `{}`, for which the config has no layer",
                    shown(name)
                )),
            }
        },
    )
}

fn config(fields: &Fields) -> Result<MaskedLanguageModelConfig, String> {
    fields.refuse_flag("is_decoder", "rows attend to all rows")?;
    fields.refuse_flag("add_cross_attention", "there is no memory to attend to")?;
    let positions = fields.optional_text("position_embedding_type")?;
    if let Some(other) = positions.filter(|name| *name != "absolute") {
        return Err(fields.unknown("position_embedding_type", &["absolute"], other));
    }
    let num_hiddens = fields.size("hidden_size")?;
    let num_heads = fields.size("num_attention_heads")?;
    let sizes = [num_heads, num_hiddens];
    divides(fields, "num_attention_heads", "hidden_size", sizes)?;
    let norm = NormConfig::Layer {
        epsilon: fields.positive("layer_norm_eps")?,
        bias: true,
    };
    let activation = activation(fields, "hidden_act", false)?;
    let dropout = fields.dropout("hidden_dropout_prob")?;
    let feed_forward_size = fields.size("intermediate_size")?;
    let layer = TransformerLayerConfig::new(num_hiddens, num_heads, feed_forward_size)
        .with_norm(norm.clone())
        .with_norm_order(NormOrder::Post)
        .with_activation(activation)
        .with_dropout(dropout)
        .with_attention_dropout(fields.dropout("attention_probs_dropout_prob")?);
    let max_positions = fields.size("max_position_embeddings")?;
    let embedding = TokenEmbeddingConfig::new(fields.size("vocab_size")?, num_hiddens)
        .with_positions(PositionEmbeddingConfig::Learned { max_positions })
        .with_num_types(Some(fields.size("type_vocab_size")?))
        .with_norm(Some(norm))
        .with_dropout(dropout);
    let stack = TransformerEncoderConfig::new(layer, fields.num_layers(&["num_hidden_layers"])?);
    Ok(MaskedLanguageModelConfig::new(embedding, stack)
        .with_head_activation(activation)
        .with_tied(fields.flag("tie_word_embeddings", true)?))
}

fn load(
    mut model: MaskedLanguageModel<DotProductScore>,
    file: &StateDict,
) -> Result<MaskedLanguageModel<DotProductScore>, String> {
    model.embedding = load_embedding(model.embedding, file, WITH_HEAD)?;
    model.stack = load_stack(model.stack, file, WITH_HEAD)?;
    load_head(&mut model, file)?;
    Ok(model)
}

fn load_stack(
    mut stack: TransformerEncoder<DotProductScore>,
    file: &StateDict,
    prefix: &str,
) -> Result<TransformerEncoder<DotProductScore>, String> {
    let layers = stack.layers.into_iter().enumerate();
    let layers =
        layers.map(|(at, layer)| load_layer(layer, file, &format!("{prefix}encoder.layer.{at}.")));
    stack.layers = layers.collect::<Result<_, _>>()?;
    Ok(stack)
}

fn load_embedding(
    mut embedding: TokenEmbedding,
    file: &StateDict,
    prefix: &str,
) -> Result<TokenEmbedding, String> {
    let name = |name: &str| format!("{prefix}embeddings.{name}");
    embedding.tokens = file.embedding(embedding.tokens, &name("word_embeddings"))?;
    if let Some(PositionEmbedding::Learned(positions)) = embedding.positions {
        let positions = file.embedding(positions, &name("position_embeddings"))?;
        embedding.positions = Some(PositionEmbedding::Learned(positions));
    }
    let types = embedding.types;
    let types = types.map(|types| file.embedding(types, &name("token_type_embeddings")));
    embedding.types = types.transpose()?;
    let norm = embedding.norm;
    let norm = norm.map(|norm| load_norm(norm, file, &name("LayerNorm")));
    embedding.norm = norm.transpose()?;
    Ok(embedding)
}

fn load_layer(
    mut layer: TransformerEncoderLayer<DotProductScore>,
    file: &StateDict,
    prefix: &str,
) -> Result<TransformerEncoderLayer<DotProductScore>, String> {
    let name = |name: &str| format!("{prefix}{name}");
    let attention = &mut layer.attention;
    let linears = [
        (&mut attention.query, "attention.self.query"),
        (&mut attention.key, "attention.self.key"),
        (&mut attention.value, "attention.self.value"),
        (&mut layer.feed_forward.input, "intermediate.dense"),
        (&mut layer.feed_forward.output, "output.dense"),
    ];
    let output = attention.output.iter_mut();
    let output = output.map(|output| (output, "attention.output.dense"));
    for (linear, of) in linears.into_iter().chain(output) {
        *linear = file.linear(linear.clone(), Place::weight_and_bias(&name(of)))?;
    }
    let norms = [
        (&mut layer.attention_residual, "attention.output.LayerNorm"),
        (&mut layer.feed_forward_residual, "output.LayerNorm"),
    ];
    for (residual, of) in norms {
        residual.norm = load_norm(residual.norm.clone(), file, &name(of))?;
    }
    Ok(layer)
}

/// A normalization by the names of today, or by those of the first files.
fn load_norm(mut norm: Norm, file: &StateDict, name: &str) -> Result<Norm, String> {
    let [gain, bias] = ["gamma", "beta"].map(|kind| format!("{name}.{kind}"));
    if !file.contains(&gain) {
        return file.norm(norm, name);
    }
    norm.gamma = file.parameter(norm.gamma, &gain)?;
    let beta = norm.beta;
    norm.beta = beta.map(|beta| file.parameter(beta, &bias)).transpose()?;
    Ok(norm)
}

/// The head. Where its weight is the embedding, the file has it once, or twice the same, and so its bias, which has two
/// names. Otherwise the bias is that of the own layer, and the other name is one that nothing reads.
fn load_head(
    model: &mut MaskedLanguageModel<DotProductScore>,
    file: &StateDict,
) -> Result<(), String> {
    let embedding = format!("{EMBEDDING}.weight");
    let [vocab_size, size] = model.embedding.tokens.weight.dims();
    let head = &mut model.head;
    let transform = Place::weight_and_bias("cls.predictions.transform.dense");
    head.transform = file.linear(head.transform.clone(), transform)?;
    head.norm = load_norm(
        head.norm.clone(),
        file,
        "cls.predictions.transform.LayerNorm",
    )?;
    let bias = head.bias.clone();
    match &mut head.output {
        Some(output) => {
            let place = Place::whole(OWN_WEIGHT.to_string());
            output.weight = file.weight(output.weight.clone(), &place)?;
            head.bias = file.parameter(bias, OWN_BIAS)?;
            if file.contains(BIAS) {
                file.find(BIAS, &[vocab_size])?;
            }
        }
        None => {
            head.bias = file.parameter(bias, BIAS)?;
            check_copy(file, [OWN_WEIGHT, &embedding], &[vocab_size, size], IS_TIED)?;
            check_copy(file, [OWN_BIAS, BIAS], &[vocab_size], IS_TIED)?;
        }
    }
    Ok(())
}
