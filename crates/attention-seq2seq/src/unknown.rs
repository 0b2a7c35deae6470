//! Tokens that a model has not learned.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::translate::Translator;
use crate::vocab::Vocab;

/// How source tokens are read that a model has not learned.
///
/// A model cannot copy them to its output: it attends to several source tokens at once, and an output has no token that
/// would stand for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum UnknownTokens {
    /// a text with one is an error
    #[default]
    Error,
    /// a text is read without them
    Skip,
    /// each is read as `<unk>`, which stands for rare tokens where training left some out (--min-count, --max-vocab)
    Unk,
}

/// Tokens as a model reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadTokens {
    /// The tokens to translate.
    pub tokens: Vec<String>,
    /// The tokens among those of the text that the model has not learned, each as often as it occurs.
    pub unknown: Vec<String>,
}

impl Vocab {
    /// Tokens of a text as a model of this vocabulary reads them.
    ///
    /// ```
    /// use attention_seq2seq::{Tokenization::Chars, UnknownTokens, Vocab};
    ///
    /// let vocab = Vocab::build([&Chars.split("cab")[..]]);
    /// let read = vocab.read(Chars.split("taxicab"), UnknownTokens::Skip)?;
    /// assert_eq!((read.tokens.concat(), read.unknown.concat()), ("acab".to_string(), "txi".to_string()));
    /// # Ok::<(), attention_seq2seq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownToken`] for the first unknown token, if `unknown` is
    /// [`UnknownTokens::Error`].
    pub fn read(&self, tokens: Vec<String>, unknown: UnknownTokens) -> Result<ReadTokens> {
        let is_unknown = |token: &String| self.id(token).is_none();
        let found: Vec<String> = tokens.iter().filter(|it| is_unknown(it)).cloned().collect();
        let mut tokens = tokens;
        match unknown {
            UnknownTokens::Error => {
                self.try_encode(&tokens)?;
            }
            UnknownTokens::Skip => tokens.retain(|token| !is_unknown(token)),
            UnknownTokens::Unk => {}
        }
        Ok(ReadTokens {
            tokens,
            unknown: found,
        })
    }
}

impl Translator {
    /// The source tokens of a text, as the model reads them: those of [`source_tokens`](Self::source_tokens), and
    /// unknown ones as told. Left out, they may leave no token.
    ///
    /// # Errors
    /// [`Error::Config`] if the text has no token, [`Error::UnknownToken`] for an unknown one, if `unknown` is
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::tokens::Tokenization::Spaces;

    #[test]
    fn unknown_tokens_are_an_error_left_out_or_kept() {
        let vocab = Vocab::build([&Spaces.split("a b c")[..]]);
        let read = |unknown| vocab.read(Spaces.split("x b y x <eos> a"), unknown);
        let error = read(UnknownTokens::Error).unwrap_err().to_string();
        assert!(error.starts_with("unknown token \"x\" at position 1; "));
        let skipped = read(UnknownTokens::Skip).unwrap();
        assert_eq!(skipped.tokens, ["b", "a"]);
        assert_eq!(skipped.unknown, ["x", "y", "x", "<eos>"]);
        let kept = read(UnknownTokens::Unk).unwrap();
        assert_eq!(kept.tokens, Spaces.split("x b y x <eos> a"));
        assert_eq!(kept.unknown, skipped.unknown);
        assert_eq!(vocab.encode(&kept.tokens)[..2], [Vocab::UNK, 5]);

        let known = vocab
            .read(Spaces.split("c a"), UnknownTokens::Error)
            .unwrap();
        assert_eq!((known.tokens, known.unknown), (Spaces.split("c a"), vec![]));
    }
}
