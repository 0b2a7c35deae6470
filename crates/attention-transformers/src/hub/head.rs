//! The layer from rows to logits.

use attention_core::ScoringFunction;
use attention_import::{ImportError, Place, Reason, StateDict};
use burn::nn::{Embedding, Linear, LinearConfig};

use crate::language_model::LanguageModel;
use crate::text_encoder::TextEncoder;

/// The reason why a head is the embedding.
pub(super) const IS_TIED: &str = "as `tie_word_embeddings` says";

/// The prefixes of the names of other heads: for classes, choices, spans of answers or values instead of tokens.
const OTHER_HEADS: [&str; 7] = [
    "score.",
    "classifier.",
    "classification_head.",
    "multiple_choice_head.",
    "qa_outputs.",
    "v_head.",
    "pooler.",
];

/// Whether a tensor belongs to a head for classes, choices, spans of answers or values.
pub(super) fn is_of_other_head(name: &str) -> bool {
    OTHER_HEADS.iter().any(|head| name.starts_with(head))
}

/// A model with its head, or the reason why loading a folder failed.
pub(super) type Loaded<S> = Result<LanguageModel<S>, ImportError>;

/// A decoder in the form that a caller wants.
pub(super) trait FromDecoder<S: ScoringFunction>: Sized {
    /// `model` with the head of a file, which is the tensor `head`.weight, otherwise the tensor `embedding`.
    fn from_decoder(
        model: LanguageModel<S>,
        file: &StateDict,
        head: &str,
        embedding: &str,
    ) -> Result<Self, Reason>;

    /// Whether a tensor is ignored.
    fn leaves_alone(name: &str) -> bool;
}

/// A decoder with its head.
impl<S: ScoringFunction> FromDecoder<S> for LanguageModel<S> {
    fn from_decoder(
        mut model: Self,
        file: &StateDict,
        head: &str,
        embedding: &str,
    ) -> Result<Self, Reason> {
        model.head = match model.head {
            Some(own) => Some(file.linear(own, Place::weight_and_bias(head))?),
            None => own_head(file, [head, embedding], &model.embedding.tokens)?,
        };
        Ok(model)
    }

    fn leaves_alone(_: &str) -> bool {
        false
    }
}

/// A decoder with or without a head, as its file has it.
pub(super) enum Decoder<S: ScoringFunction> {
    WithHead(LanguageModel<S>),
    Alone(TextEncoder<S>),
}

impl<S: ScoringFunction> FromDecoder<S> for Decoder<S> {
    fn from_decoder(
        model: LanguageModel<S>,
        file: &StateDict,
        head: &str,
        embedding: &str,
    ) -> Result<Self, Reason> {
        if model.head.is_none() || file.contains(&format!("{head}.weight")) {
            let model = LanguageModel::from_decoder(model, file, head, embedding)?;
            return Ok(Self::WithHead(model));
        }
        Ok(Self::Alone(TextEncoder {
            embedding: model.embedding,
            stack: model.stack,
            causal: true,
        }))
    }

    fn leaves_alone(name: &str) -> bool {
        is_of_other_head(name)
    }
}

/// The head in the tensor `head`.weight, if its elements differ from the tensor `embedding`: version 5 of
/// `transformers` keeps such a head, whatever `tie_word_embeddings` says.
pub(super) fn own_head(
    file: &StateDict,
    [head, embedding]: [&str; 2],
    tokens: &Embedding,
) -> Result<Option<Linear>, Reason> {
    let place = Place::weight_and_bias(head);
    let shape @ [vocab_size, size] = tokens.weight.dims();
    if !is_own(file, [&place[0].name, embedding], &shape)? {
        return Ok(None);
    }
    let own = LinearConfig::new(size, vocab_size).with_bias(false);
    let own = own.init(&tokens.weight.device());
    file.linear(own, place).map(Some)
}

/// Whether a file has a tensor `copy` whose elements differ from those of `original`.
pub(super) fn is_own(
    file: &StateDict,
    [copy, original]: [&str; 2],
    shape: &[usize],
) -> Result<bool, Reason> {
    Ok(file.contains(copy) && !file.is_same([copy, original], shape)?)
}

/// # Errors
/// If one of the layers `names` has another weight than the layer `name`, the embedding of both stacks.
pub(super) fn check_stacks(
    file: &StateDict,
    names: &[&str],
    name: &str,
    tokens: &Embedding,
) -> Result<(), Reason> {
    let reason = "as both stacks have the same embedding";
    let (original, shape) = (format!("{name}.weight"), tokens.weight.dims());
    for copy in names.iter().filter(|copy| **copy != name) {
        check_copy(file, [&format!("{copy}.weight"), &original], &shape, reason)?;
    }
    Ok(())
}

/// # Errors
/// If there is a tensor `copy` with other elements than `original`; `reason` says why both are one parameter.
pub(super) fn check_copy(
    file: &StateDict,
    [copy, original]: [&str; 2],
    shape: &[usize],
    reason: &str,
) -> Result<(), Reason> {
    if is_own(file, [copy, original], shape)? {
        return Err(format!(
            "`{copy}`: expected the elements of `{original}`, {reason}, got others"
        )
        .into());
    }
    Ok(())
}
