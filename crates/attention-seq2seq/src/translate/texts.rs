//! Texts to tokens and back.

use std::path::Path;

use super::Translator;
use crate::data::pair_file::PairFileOptions;
use crate::error::{Error, Result};
use crate::run::DataSource;
use crate::text::normalization::Normalization;
use crate::text::tokens::trim;
use crate::text::unknown::UnknownTokens;

impl Translator {
    /// Whether a text has nothing to translate: as in a file of pairs, spaces, tabs and line ends around a text are not
    /// part of it.
    pub fn is_blank(&self, text: &str) -> bool {
        trim(text).is_empty()
    }

    /// Splits a text into source tokens that the model knows. As in a file of pairs, spaces, tabs and line ends around
    /// it are not part of it. A byte order mark is; whoever reads a file has to remove it.
    ///
    /// # Errors
    /// [`Error::Config`] if the text has no tokens, [`Error::UnknownToken`] if it has one that is not in the
    /// vocabulary.
    pub fn source_tokens(&self, text: &str) -> Result<Vec<String>> {
        Ok(self.read_source(text, UnknownTokens::Error)?.tokens)
    }

    /// Splits a text into source tokens like [`source_tokens`](Self::source_tokens), also those unknown to the model.
    pub fn split_source(&self, text: &str) -> Vec<String> {
        self.config.data.source_tokens().split(trim(text))
    }

    /// How to read the pairs of the file with this name: in the columns and tokens of the training file, and in its
    /// format unless the ending of the name tells another; or as source TAB target if the model was trained on a task.
    /// The pairs may have any number of tokens, and any tokens.
    ///
    /// # Errors
    /// The errors of [`PairFileOptions::of_other`].
    pub fn pair_options(&self, file: impl AsRef<Path>) -> Result<PairFileOptions> {
        let options = match &self.config.data {
            DataSource::Files { options, .. } => options.clone(),
            DataSource::Task { task, .. } => PairFileOptions {
                normalization: Normalization::None,
                ..PairFileOptions::new(task.tokenization(), task.tokenization())
            },
        };
        options.of_other(file, None)
    }

    /// Joins source tokens to a text.
    pub fn source_text(&self, tokens: &[String]) -> String {
        self.config.data.source_tokens().join(tokens)
    }

    /// Joins target tokens to a text.
    pub fn target_text(&self, tokens: &[String]) -> String {
        self.config.data.target_tokens().join(tokens)
    }

    /// Checks that another model splits texts into the same tokens, known or not, without which the two cannot be
    /// compared token by token.
    ///
    /// # Errors
    /// [`Error::Config`], which names the tokens of both.
    pub fn check_same_tokens(&self, other: &Self) -> Result<()> {
        self.check_tokens_of(other, "the model to compare with", "the first")
    }

    /// As [`check_same_tokens`](Self::check_same_tokens), with the names of the other and of this model for the error.
    pub(super) fn check_tokens_of(&self, other: &Self, name: &str, own_name: &str) -> Result<()> {
        let (data, of_other) = (&self.config.data, &other.config.data);
        for (side, expected, found) in [
            ("source", data.source_tokens(), of_other.source_tokens()),
            ("target", data.target_tokens(), of_other.target_tokens()),
        ] {
            if expected != found {
                let what = format!("the {side} tokens of {name}");
                let is_alike = expected.to_string() == found.to_string();
                let others = if is_alike { " of other texts" } else { "" };
                let expected = format!("{expected}, as in {own_name}");
                return Err(Error::config(what, expected, format!("{found}{others}")));
            }
        }
        Ok(())
    }

    pub(super) fn source_tokens_of<T: AsRef<str>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Vec<String>>> {
        let texts = texts.into_iter();
        let tokens = texts.map(|text| self.source_tokens(text.as_ref()));
        tokens.collect()
    }

    /// Splits a text into target tokens that the model knows; no tokens if it is blank.
    ///
    /// # Errors
    /// [`Error::UnknownToken`] if a token is not in the vocabulary.
    pub fn target_tokens(&self, text: &str) -> Result<Vec<String>> {
        let tokens = self.config.data.target_tokens().split(trim(text));
        self.vocabs.target.try_encode(&tokens)?;
        Ok(tokens)
    }
}
