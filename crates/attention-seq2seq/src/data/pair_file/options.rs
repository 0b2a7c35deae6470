//! How to read a file of pairs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Columns, PairFile, PairFormat};
use crate::error::{Error, Result};
use crate::text::normalization::Normalization;
use crate::text::subwords::Subwords;
use crate::text::tokenizer::Tokenizer;
use crate::text::tokens::Tokenization;

/// How to read a file of pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairFileOptions {
    /// The format.
    #[serde(default)]
    pub format: PairFormat,
    /// The columns of source and target, if they are separated by TAB.
    pub columns: Columns,
    /// The tokenization of sources.
    pub source_tokens: Tokenization,
    /// The tokenization of targets.
    pub target_tokens: Tokenization,
    /// The largest number of tokens of a source or a target.
    pub max_tokens: usize,
    /// Unicode's normal form of sources, targets and texts to translate. Saved settings without this field mean none.
    #[serde(default = "Normalization::none")]
    pub normalization: Normalization,
    /// The subwords that the words of a source are divided into, instead of `source_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_subwords: Option<Subwords>,
    /// The subwords that the words of a target are divided into, instead of `target_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_subwords: Option<Subwords>,
}

impl PairFileOptions {
    /// The default of `max_tokens`: a model of recurrent layers learns little from longer sequences, and memory and
    /// time of a batch grow with its longest sequence.
    pub const MAX_TOKENS: usize = 1_000;

    /// Options with these tokenizations, and defaults otherwise.
    pub fn new(source_tokens: Tokenization, target_tokens: Tokenization) -> Self {
        Self {
            format: PairFormat::default(),
            columns: Columns::default(),
            source_tokens,
            target_tokens,
            max_tokens: Self::MAX_TOKENS,
            normalization: Normalization::default(),
            source_subwords: None,
            target_subwords: None,
        }
    }

    /// As [`PairFile::guess`], for a file.
    ///
    /// # Errors
    /// As [`load_pairs`](crate::load_pairs).
    pub fn guess(path: impl AsRef<Path>, columns: Columns) -> Result<Self> {
        PairFile::read(path)?.guess(columns)
    }

    /// The options of another file that is read for the same model: in the given format, or in the one that its
    /// [ending](PairFormat::of_other) tells. Its sources and targets may have any number of tokens.
    ///
    /// # Errors
    /// [`Error::Config`] if one of the formats has tags before a source and the other does not.
    pub fn of_other(&self, path: impl AsRef<Path>, format: Option<PairFormat>) -> Result<Self> {
        let path = path.as_ref();
        let other = Self {
            format: format.unwrap_or_else(|| self.format.of_other(path)),
            max_tokens: usize::MAX,
            ..self.clone()
        };
        if other.source().has_tags != self.source().has_tags {
            let what = format!("the format of {}", path.display());
            let expected = format!("{}, as the training file, for its tags", self.format);
            return Err(Error::config(&what, &expected, &other.format));
        }
        Ok(other)
    }

    /// The tokenization of sources, including tags and normal form.
    pub(crate) fn source(&self) -> Tokenizer {
        let has_tags = match &self.format {
            PairFormat::Tsv => self.columns.tags.is_some(),
            PairFormat::Dict { .. } => false,
            PairFormat::Jsonl(fields) => fields.tags.is_some(),
        };
        Tokenizer {
            tokens: self.source_tokens,
            subwords: self.source_subwords.clone(),
            normalization: self.normalization,
            has_tags,
        }
    }

    /// The tokenization of targets, including normal form.
    pub(crate) fn target(&self) -> Tokenizer {
        Tokenizer {
            tokens: self.target_tokens,
            subwords: self.target_subwords.clone(),
            normalization: self.normalization,
            has_tags: false,
        }
    }
}
