//! BERT, and the families that differ from it in names.

use std::path::Path;

use attention_core::DotProductScore;
use attention_import::{ImportError, Place, Reason, StateDict};
use burn::nn::LinearConfig;
use burn::tensor::Device;

use super::activation::activation;
use super::decoder::load_layers;
use super::encoder_families::{FAMILIES, Family, model_types};
use super::fields::Fields;
use super::folder::load_model;
use super::head::{IS_TIED, check_copy, is_own};
use super::layer_norm::layer_config;
use super::names::{first_of, load_positions, prefix};
use super::sentences::refuse_dense;
use crate::embedding::{TokenEmbedding, TokenEmbeddingConfig};
use crate::encoder::TransformerEncoderConfig;
use crate::feed_forward::FeedForwardActivation;
use crate::masked_language_model::{MaskedLanguageModel, MaskedLanguageModelConfig};
use crate::norm::NormConfig;
use crate::position_embedding::PositionEmbeddingConfig;
use crate::residual::NormOrder;
use crate::state_dict::ReadNorm;
use crate::text_encoder::TextEncoder;

/// The epsilon of normalizations, if a config has none.
const EPSILON: f64 = 1e-12;

/// The padding token, if a config has none.
const PAD_TOKEN: usize = 1;

const EMBEDDING: &str = "embeddings.word_embeddings";

/// Loads a BERT, or a family that differs in names, with the head of its masked language model (`model_type` `bert`;
/// `roberta`, `xlm-roberta`, `camembert`; `distilbert`; `electra`) from a Hugging Face folder: learned positions, types
/// of tokens except in DistilBERT, layer normalization after the embedding and after the sublayers.
///
/// - after `bert.embeddings.`: `word_embeddings.weight` (also the last layer of the head, unless `tie_word_embeddings`
///   is false), `position_embeddings.weight`, `token_type_embeddings.weight`, `LayerNorm`
/// - for layer `n`, after `bert.encoder.layer.n.`: `attention.self.query`, `key`, `value`, `attention.output.dense`,
///   `attention.output.LayerNorm`, `intermediate.dense`, `output.dense`, `output.LayerNorm`, each with `weight` and
///   `bias`
/// - after `cls.predictions.`: `transform.dense`, `transform.LayerNorm`, `bias`; for a head that is not tied,
///   `decoder.weight` and `decoder.bias`
///
/// Normalizations of older files have `gamma` and `beta`. The pooler and the head of the other pretraining task are
/// ignored. The positions of RoBERTa and its relatives begin in row `pad_token_id + 1` of their table; a padding token
/// within a text does not count as a position, and has the row before. [`MaskedLanguageModel::forward`] takes Hugging
/// Face's `token_type_ids`, and the number of tokens of each text instead of an `attention_mask`.
///
/// # Errors
/// As [`hub`](super) describes.
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
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_bert(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<MaskedLanguageModel<DotProductScore>, ImportError> {
    load_model(
        folder.as_ref(),
        &model_types(),
        |fields| {
            let found = found(fields)?;
            Ok((found.config.init(device), found))
        },
        |(mut model, found), file| {
            let prefix = found.family.prefix;
            model.embedding = load_embedding(model.embedding, file, &found, prefix)?;
            let layout = &found.family.layers;
            load_layers(&mut model.stack.layers, file, prefix, layout)?;
            load_head(&mut model, file, &found)?;
            Ok(model)
        },
        |name| is_of_pretraining(name) || name.contains(".pooler."),
    )
}

/// Loads a BERT, or another family of [`load_bert`], without a head from a Hugging Face folder, such as the sentence
/// models MiniLM, BGE and E5: for [features](TextEncoder::features), and [embeddings](TextEncoder::embeddings) of
/// texts.
///
/// The names are those of [`load_bert`], with or without the family's prefix (`bert.`). The pooler and heads are
/// ignored.
///
/// # Errors
/// As [`hub`](super) describes.
///
/// ```no_run
/// use attention_core::NewRows;
/// use attention_transformers::text_encoder::Pooling;
/// use attention_transformers::hub::load_bert_encoder;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let model = load_bert_encoder("all-MiniLM-L6-v2", &device)?;
/// // Two texts by its tokenizer, which is not ours, the second shorter: "[CLS] .. [SEP]" and padding.
/// let tokens = Tensor::from_ints([[101, 2023, 2003, 102], [101, 2204, 102, 0]], &device);
/// let embeddings = model.embeddings(tokens, None, NewRows::First(&[4, 3]), Pooling::Mean);
/// let similarities = embeddings.clone().matmul(embeddings.transpose());
/// assert_eq!(similarities.dims(), [2, 2]);
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_bert_encoder(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<TextEncoder<DotProductScore>, ImportError> {
    refuse_dense(folder.as_ref())?;
    load_encoder(folder.as_ref(), device)
}

/// [`load_bert_encoder`], regardless of `modules.json`.
pub(super) fn load_encoder(
    folder: &Path,
    device: &Device,
) -> Result<TextEncoder<DotProductScore>, ImportError> {
    load_model(
        folder,
        &model_types(),
        |fields| {
            let found = found(fields)?;
            let model = TextEncoder {
                embedding: found.config.embedding.init(device),
                stack: found.config.stack.init(device),
                causal: false,
            };
            Ok((model, found))
        },
        |(mut model, found), file| {
            let prefixes = [found.family.prefix, ""];
            let prefix = prefix(file, &prefixes, &format!("{EMBEDDING}.weight"));
            model.embedding = load_embedding(model.embedding, file, &found, prefix)?;
            let layout = &found.family.layers;
            load_layers(&mut model.stack.layers, file, prefix, layout)?;
            Ok(model)
        },
        |name| {
            let is_of_layer = FAMILIES.iter().any(|family| {
                let layers = family.layers.names.own("layers.");
                let own = name.strip_prefix(family.prefix).unwrap_or(name);
                own.starts_with(layers) || own.starts_with("embeddings.")
            });
            !is_of_layer || is_of_pretraining(name)
        },
    )
}

/// Whether a tensor belongs to the head of BERT's other task, or is a buffer of older files.
fn is_of_pretraining(name: &str) -> bool {
    let buffers = [".position_ids", ".token_type_ids"];
    name.starts_with("cls.seq_relationship.") || buffers.iter().any(|end| name.ends_with(end))
}

/// The configuration found in a folder.
struct Found {
    family: &'static Family,
    /// The token that does not count as a position, whose row in the table is the last before the first position.
    padding_token: Option<usize>,
    config: MaskedLanguageModelConfig,
}

fn found(fields: &Fields) -> Result<Found, Reason> {
    let model_type = fields.text("model_type")?;
    let mut families = FAMILIES.iter();
    let family = families.find(|family| family.model_types.contains(&model_type));
    let family = family.ok_or_else(|| fields.unknown("model_type", &model_types(), model_type))?;
    let fields = &fields.clone().named(family.fields);
    fields.refuse_flag("is_decoder", "rows attend to all rows")?;
    fields.refuse_flag("add_cross_attention", "there is no memory to attend to")?;
    fields.expect_text("position_embedding_type", "absolute")?;
    fields.expect_size_of_hiddens("embedding_size")?;
    let epsilon = fields.optional_positive("layer_norm_eps")?;
    let norm = NormConfig::Layer {
        epsilon: epsilon.unwrap_or(EPSILON),
        bias: true,
    };
    let activation = activation(fields, "hidden_act", false)?;
    let feed_forward_size = fields.size("intermediate_size")?;
    let layer = layer_config(fields, feed_forward_size, activation, norm.clone())?
        .with_norm_order(NormOrder::Post);
    let rows = fields.size("max_position_embeddings")?;
    let padding_token = match fields.value("pad_token_id") {
        _ if !family.begins_after_padding => None,
        Some(_) => Some(fields.size_or_0("pad_token_id")?),
        None => Some(PAD_TOKEN),
    };
    let first_position = padding_token.map_or(0, |token| token + 1);
    let Some(max_positions @ 1..) = rows.checked_sub(first_position) else {
        let expected = format!("more than {first_position}, the row of the first position");
        return Err(fields.wrong("max_position_embeddings", &expected, rows));
    };
    let num_types = family.has_types.then(|| fields.size("type_vocab_size"));
    let embedding = TokenEmbeddingConfig::new(fields.size("vocab_size")?, layer.num_hiddens)
        .with_positions(PositionEmbeddingConfig::Learned {
            max_positions: max_positions + usize::from(padding_token.is_some()),
        })
        .with_num_types(num_types.transpose()?)
        .with_norm(Some(norm))
        .with_dropout(layer.dropout);
    let stack = TransformerEncoderConfig::new(layer, fields.num_layers("num_hidden_layers")?);
    let of_head = if family.has_gelu_head {
        FeedForwardActivation::Gelu
    } else {
        activation
    };
    let config = MaskedLanguageModelConfig::new(embedding, stack)
        .with_head_activation(of_head)
        .with_tied(fields.flag("tie_word_embeddings", true)?);
    Ok(Found {
        family,
        padding_token,
        config,
    })
}

impl Found {
    /// The name of the embedding or, if the file does not have it, of the head to which it is tied.
    fn embedding(&self, file: &StateDict, prefix: &str) -> String {
        let embedding = format!("{prefix}{EMBEDDING}");
        let head = self.family.head.own("cls.predictions.decoder.weight");
        let head = head.trim_end_matches(".weight");
        if !self.config.tied {
            return embedding;
        }
        first_of(file, &[&embedding, head]).to_string()
    }
}

fn load_embedding(
    mut embedding: TokenEmbedding,
    file: &StateDict,
    found: &Found,
    prefix: &str,
) -> Result<TokenEmbedding, Reason> {
    let name = |name: &str| format!("{prefix}embeddings.{name}");
    embedding.tokens = file.embedding(embedding.tokens, &found.embedding(file, prefix))?;
    embedding.padding_token = found.padding_token;
    let positions = name("position_embeddings");
    let padding = found.padding_token.unwrap_or(0);
    load_positions(&mut embedding, file, &positions, padding)?;
    let load_types = |types| file.embedding(types, &name("token_type_embeddings"));
    embedding.types = embedding.types.map(load_types).transpose()?;
    file.optional_norm(&mut embedding.norm, &name("LayerNorm"))?;
    Ok(embedding)
}

/// Loads the head. If its weight is the embedding, the file has it once, or twice the same; the same holds for its
/// bias, which has two names. Otherwise the bias belongs to the head's own layer, and the other name is not read.
fn load_head(
    model: &mut MaskedLanguageModel<DotProductScore>,
    file: &StateDict,
    found: &Found,
) -> Result<(), Reason> {
    let family = found.family;
    let own = |name: &str| family.head.own(name).to_string();
    let [weight, own_bias, bias] = ["decoder.weight", "decoder.bias", "bias"]
        .map(|name| own(&format!("cls.predictions.{name}")));
    let tokens = &model.embedding.tokens.weight;
    let shape @ [vocab_size, size] = tokens.dims();
    let head = &mut model.head;
    let transform = Place::weight_and_bias(&own("cls.predictions.transform.dense"));
    head.transform = file.linear(head.transform.clone(), transform)?;
    let norm = own("cls.predictions.transform.LayerNorm");
    head.norm = file.norm(head.norm.clone(), &norm)?;
    let embedding = format!("{}.weight", found.embedding(file, family.prefix));
    // Version 5 of `transformers` keeps an untied head, whatever `tie_word_embeddings` says.
    let is_called_tied = head.output.is_none();
    if is_called_tied && is_own(file, [&weight, &embedding], &shape)? {
        let own = LinearConfig::new(size, vocab_size).with_bias(false);
        head.output = Some(own.init(&tokens.device()));
    }
    let (of_head, has_bias) = (head.bias.clone(), file.contains(&bias));
    match &mut head.output {
        Some(output) => {
            output.weight = file.weight(output.weight.clone(), &Place::whole(weight))?;
            let is_shared = is_called_tied && !file.contains(&own_bias);
            let name = if is_shared { &bias } else { &own_bias };
            head.bias = file.parameter(of_head, name)?;
            if has_bias {
                file.find(&bias, &[vocab_size])?;
            }
        }
        None => {
            let bias = if has_bias { &bias } else { &own_bias };
            head.bias = file.parameter(of_head, bias)?;
            check_copy(file, [&weight, &embedding], &shape, IS_TIED)?;
            check_copy(file, [&own_bias, bias], &[vocab_size], IS_TIED)?;
        }
    }
    Ok(())
}
