//! Tokens that a model has not learned.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::vocab::Vocab;
use crate::translate::Translator;

/// How source tokens that a model has not learned are read.
///
/// A model cannot copy such tokens to its output: it attends to several source tokens at once, and no output token
/// would stand for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownTokens {
    /// A text with such a token is an error.
    #[default]
    Error,
    /// A text is read without such tokens.
    Skip,
    /// Each is read as `<unk>`, which stands for rare tokens if [`VocabLimits`](crate::text::VocabLimits) left some
    /// out.
    Unk,
}

/// The name on the command line and in requests.
impl std::fmt::Display for UnknownTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Tokens as a model reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadTokens {
    /// The tokens to translate.
    pub tokens: Vec<String>,
    /// The text's tokens that the model has not learned, each as often as it occurs.
    pub unknown: Vec<String>,
    /// The tokens of the text that were left out, with their positions in it, counted from 0.
    pub left_out: Vec<(usize, String)>,
}

impl ReadTokens {
    /// All tokens of the text, including those left out.
    pub fn of_text(&self) -> Vec<String> {
        self.in_text(&self.tokens, str::to_owned)
    }

    /// The positions of the tokens in the text, counted from 0.
    pub fn positions(&self) -> Vec<usize> {
        let mut left_out = self.left_out.iter().peekable();
        let is_kept = |at: &usize| left_out.next_if(|(place, _)| place == at).is_none();
        let places = 0..self.tokens.len() + self.left_out.len();
        places.filter(is_kept).collect()
    }

    /// Values of the tokens, and of what follows them, with a value inserted for each token that was left out.
    pub fn in_text<T: Clone>(&self, values: &[T], of_left_out: impl Fn(&str) -> T) -> Vec<T> {
        let (mut values, mut left_out) = (values.iter(), self.left_out.iter().peekable());
        let next = |at: usize| match left_out.next_if(|(place, _)| *place == at) {
            Some((_, token)) => Some(of_left_out(token)),
            None => values.next().cloned(),
        };
        (0..).map_while(next).collect()
    }
}

/// Tokens in the order of their first occurrence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    tokens: Vec<String>,
    found: HashSet<String>,
}

impl Distinct {
    pub(crate) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    pub(crate) fn extend<'a>(&mut self, tokens: impl IntoIterator<Item = &'a str>) {
        for token in tokens {
            if !self.found.contains(token) {
                self.found.insert(token.to_owned());
                self.tokens.push(token.to_owned());
            }
        }
    }
}

impl Vocab {
    /// The tokens of this list that are not in the vocabulary.
    pub(crate) fn unknown<'a>(&self, tokens: &'a [String]) -> Vec<&'a str> {
        let tokens = tokens.iter().map(String::as_str);
        tokens.filter(|token| self.is_unknown(token)).collect()
    }

    fn is_unknown(&self, token: &str) -> bool {
        self.id(token).is_none()
    }

    /// Tokens of a text, as a model with this vocabulary reads them.
    ///
    /// # Errors
    /// [`Error::UnknownToken`] for the first unknown token, if `unknown` is
    /// [`UnknownTokens::Error`].
    pub fn read(&self, mut tokens: Vec<String>, unknown: UnknownTokens) -> Result<ReadTokens> {
        let found = self.unknown(&tokens).into_iter();
        let found = found.map(str::to_owned).collect();
        let mut left_out = Vec::new();
        match unknown {
            UnknownTokens::Error => {
                self.try_encode(&tokens)?;
            }
            UnknownTokens::Skip => {
                let places = (0..).zip(tokens);
                let (skipped, kept): (Vec<_>, Vec<_>) =
                    places.partition(|(_, token)| self.is_unknown(token));
                tokens = kept.into_iter().map(|(_, token)| token).collect();
                left_out = skipped;
            }
            UnknownTokens::Unk => {}
        }
        Ok(ReadTokens {
            tokens,
            unknown: found,
            left_out,
        })
    }
}

impl Translator {
    /// The source tokens of a text, as the model reads them: [`source_tokens`](Self::source_tokens), with unknown
    /// tokens handled by `unknown`. If these are left out, no token may remain.
    ///
    /// # Errors
    /// [`Error::Config`] if the text has no token, [`Error::UnknownToken`] for an unknown token if `unknown` is
    /// [`UnknownTokens::Error`].
    pub fn read_source(&self, text: &str, unknown: UnknownTokens) -> Result<ReadTokens> {
        let tokens = self.split_source(text);
        if tokens.is_empty() {
            let (what, expected) = ("the text to translate", "at least one token");
            return Err(Error::config(what, expected, "none"));
        }
        self.vocabs().source.read(tokens, unknown)
    }
}
