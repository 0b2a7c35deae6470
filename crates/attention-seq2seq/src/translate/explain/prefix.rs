//! The tokens with which outputs begin.

use super::ExplainConfig;
use crate::error::{Error, Result};
use crate::translate::align::END;
use crate::translate::{ScoredHypothesis, Translator};

/// The beginning of the outputs of an explanation.
pub(super) struct Prefix {
    /// The target tokens, without the end token.
    pub(super) tokens: Vec<String>,
    /// Whether the end token follows, so that they are a whole output.
    pub(super) is_whole: bool,
}

impl Translator {
    /// Checks the settings of an explanation, before a source is read or queued.
    ///
    /// # Errors
    /// [`Error::Config`] for the first setting out of its range, a prefix with more tokens than an output may have, or
    /// `<eos>` at its end if that is also a token of the model's data; [`Error::UnknownToken`] for a token of the
    /// prefix that is not in the vocabulary.
    pub fn check_explanation(&self, config: &ExplainConfig) -> Result<()> {
        self.prefix_of(config).map(drop)
    }

    /// The prefix of an explanation, whose settings were checked.
    pub(super) fn prefix_of(&self, config: &ExplainConfig) -> Result<Prefix> {
        config.search.check(self.max_len)?;
        let (tokens, is_whole) = match config.prefix.split_last() {
            None => (self.target_tokens(&config.search.prefix)?, false),
            Some((last, tokens)) if last == END => (tokens.to_vec(), true),
            Some(_) => (config.prefix.clone(), false),
        };
        if is_whole && self.vocabs.target.id(END).is_some() {
            let expected = "no `<eos>` at its end, which is a token of this model's data";
            return Err(Error::config("the prefix", expected, "one"));
        }
        self.vocabs.target.try_encode(&tokens)?;
        let most = config.search.max_len.unwrap_or(self.max_len);
        if tokens.len() > most {
            let expected = format!("at most {most} tokens, where outputs are cut off");
            return Err(Error::config("the prefix", &expected, tokens.len()));
        }
        Ok(Prefix { tokens, is_whole })
    }

    /// An ended output with these tokens, whose probability is not known yet.
    pub(super) fn unscored(&self, tokens: Vec<String>) -> ScoredHypothesis {
        ScoredHypothesis {
            text: self.target_text(&tokens),
            tokens,
            ended: true,
            log_probability: f64::NAN,
            score: f64::NAN,
        }
    }
}
