//! Settings and vocabularies, as an exported file has them.

use serde::Serialize;

use crate::attention::AttentionKind;
use crate::model::ModelConfig;
use crate::normalization::Normalization;
use crate::run::TrainConfig;
use crate::subwords::Subwords;
use crate::tokens::Tokenization;
use crate::translate::Translator;
use crate::vocabs::Vocabs;

/// The number of the format: of these fields, and of the names and layouts of the tensors. A reader refuses any other.
const FORMAT: u32 = 1;

/// Everything that is needed to translate, beside the tensors; and how the model came about.
#[derive(Serialize)]
pub(super) struct Metadata<'a> {
    format: u32,
    model: &'a ModelConfig,
    attention: AttentionKind,
    /// The number of tokens after which an output is cut off.
    max_len: usize,
    source_tokens: Tokenization,
    target_tokens: Tokenization,
    /// The pieces of words, in the place of these tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_subwords: Option<Subwords>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_subwords: Option<Subwords>,
    /// The normal form of texts.
    unicode: Normalization,
    /// Whether tags stand before a source.
    source_has_tags: bool,
    /// The checksum of the pairs that the model was trained and validated on.
    data_checksum: Option<u32>,
    train: &'a TrainConfig,
    /// The epoch after which the model had these parameters.
    epoch: usize,
    vocabs: &'a Vocabs,
}

impl<'a> Metadata<'a> {
    /// Those of a trained model.
    pub(super) fn of(translator: &'a Translator) -> Self {
        let config = translator.config();
        let (source, target) = (config.data.source_tokens(), config.data.target_tokens());
        Self {
            format: FORMAT,
            model: &config.model,
            attention: config.attention,
            max_len: translator.max_len(),
            source_tokens: source.tokens,
            target_tokens: target.tokens,
            source_subwords: source.subwords,
            target_subwords: target.subwords,
            unicode: source.normalization,
            source_has_tags: source.has_tags,
            data_checksum: config.data_checksum,
            train: &config.train,
            epoch: translator.epoch(),
            vocabs: translator.vocabs(),
        }
    }

    /// Their text.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("settings and vocabularies have keys of text alone")
    }
}
