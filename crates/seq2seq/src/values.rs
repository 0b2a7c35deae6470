//! Arguments whose values are enums of the library: their parsers, and the help of each value.

use attention_seq2seq::AttentionKind;
use attention_seq2seq::data::Stress;
use attention_seq2seq::model::ModelKind;
use attention_seq2seq::run::Select;
use attention_seq2seq::text::{Normalization, UnknownTokens};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn attention() -> impl TypedValueParser<Value = AttentionKind> {
    let kinds = AttentionKind::ALL.iter();
    one_of(kinds.map(|kind| (*kind, kind.description())))
}

pub(crate) fn model() -> impl TypedValueParser<Value = ModelKind> {
    let rnn = "recurrent encoder and decoder with attention: a `Seq2Seq`";
    let transformer = "encoder and decoder of self-attention: a `Transformer`";
    one_of([(ModelKind::Rnn, rnn), (ModelKind::Transformer, transformer)])
}

pub(crate) fn normalization() -> impl TypedValueParser<Value = Normalization> {
    let nfc =
        "a letter and its accent are one character, where there is one: the form of most texts";
    let nfd = "a letter and its accent are two characters, a Korean syllable its letters; outputs are written in NFC";
    one_of([
        (Normalization::None, "texts are read as they are"),
        (Normalization::Nfc, nfc),
        (Normalization::Nfd, nfd),
    ])
}

pub(crate) fn select() -> impl TypedValueParser<Value = Select> {
    let error_rate = "the share of outputs of greedy search that are not their target";
    one_of([
        (Select::Loss, "the loss under teacher forcing"),
        (Select::ErrorRate, error_rate),
        (Select::Bleu, "BLEU of outputs of greedy search, by tokens"),
    ])
}

pub(crate) fn stress() -> impl TypedValueParser<Value = Stress> {
    one_of([
        (Stress::Keep, "phonemes are as they are: AH0"),
        (Stress::Drop, "phonemes have no digit: AH"),
    ])
}

pub(crate) fn unknown_tokens() -> impl TypedValueParser<Value = UnknownTokens> {
    let unk = "each is read as `<unk>`, which stands for rare tokens where training left some out (--min-count, \
               --max-vocab)";
    one_of([
        (UnknownTokens::Error, "a text with one is an error"),
        (UnknownTokens::Skip, "a text is read without them"),
        (UnknownTokens::Unk, unk),
    ])
}

/// A parser of these values, by the names that they have in saved settings.
fn one_of<T>(
    values: impl IntoIterator<Item = (T, &'static str)>,
) -> impl TypedValueParser<Value = T>
where
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let named = |(value, help): (T, _)| PossibleValue::new(saved_name(&value)).help(help);
    let names = PossibleValuesParser::new(values.into_iter().map(named));
    names.try_map(|name| serde_json::from_value(name.into()))
}

/// The name of a unit variant in saved settings.
fn saved_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a unit variant is written as its name, not as {other:?}"),
    }
}
