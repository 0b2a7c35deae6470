//! Limits of a vocabulary.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Limits the tokens of a vocabulary to the most frequent ones. Other tokens are read as [`Vocab::UNK`], in sources and
/// in targets, so that a model learns something about rare tokens as a group; an output never has that token.
///
/// [`Vocab::UNK`]: crate::Vocab::UNK
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VocabLimits {
    /// The smallest number of occurrences of a token.
    pub min_count: usize,
    /// The largest number of tokens, not counting special tokens; `None` for no limit. Of equally frequent tokens, the
    /// alphabetically first are kept.
    pub max_tokens: Option<usize>,
}

impl Default for VocabLimits {
    /// All tokens.
    fn default() -> Self {
        Self {
            min_count: 1,
            max_tokens: None,
        }
    }
}

impl VocabLimits {
    /// The largest number of tokens that can have an id.
    const MOST: usize = u32::MAX as usize;

    /// Checks the limits.
    ///
    /// # Errors
    /// [`Error::Config`] for a limit of 0, or for more tokens than can have an id.
    pub fn check(&self) -> Result<()> {
        let limits = [
            ("--min-count", Some(self.min_count)),
            ("--max-vocab", self.max_tokens),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(Error::config(*name, "at least 1", 0));
        }
        match self.max_tokens.filter(|&most| most > Self::MOST) {
            None => Ok(()),
            Some(most) => {
                let expected = format!("at most {}", Self::MOST);
                Err(Error::config("--max-vocab", &expected, most))
            }
        }
    }

    /// Checks that the most frequent token, with `most` occurrences, stays in a vocabulary; `side` is source or target.
    pub(crate) fn check_left(&self, side: &str, most: usize) -> Result<()> {
        if self.min_count <= most {
            return Ok(());
        }
        let expected = format!("at most {most}, the count of the most frequent {side} token");
        Err(Error::config("--min-count", &expected, self.min_count))
    }
}
