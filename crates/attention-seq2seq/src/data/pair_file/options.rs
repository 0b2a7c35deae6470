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
    /// The columns of source and target, where they are divided by TAB.
    pub columns: Columns,
    /// How a source becomes tokens.
    pub source_tokens: Tokenization,
    /// How a target becomes tokens.
    pub target_tokens: Tokenization,
    /// The most tokens that a source or a target may have.
    pub max_tokens: usize,
    /// Unicode's normal form of sources, targets and texts to translate. Settings saved without one have none.
    #[serde(default = "Normalization::none")]
    pub normalization: Normalization,
    /// The pieces that the words of a source are divided into, in the place of `source_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_subwords: Option<Subwords>,
    /// The pieces that the words of a target are divided into, in the place of `target_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_subwords: Option<Subwords>,
}

impl PairFileOptions {
    /// The most tokens of a source or a target, unless another number is asked for: a model of recurrent layers learns
    /// little from more, and memory and time of a batch grow with the longest in it.
    pub const MAX_TOKENS: usize = 1_000;

    /// These tokens, and all other options by default.
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

    /// The options of another file, which is read for the same model: in this format, or that which its
    /// [ending](PairFormat::of_other) tells. Its sources and targets may have any number of tokens.
    ///
    /// # Errors
    /// [`Error::Config`] if one of the formats has tags before a source and the other has none.
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

    /// How a source becomes tokens, its tags and its normal form included.
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

    /// How a target becomes tokens, its normal form included.
    pub(crate) fn target(&self) -> Tokenizer {
        Tokenizer {
            tokens: self.target_tokens,
            subwords: self.target_subwords.clone(),
            normalization: self.normalization,
            has_tags: false,
        }
    }
}
