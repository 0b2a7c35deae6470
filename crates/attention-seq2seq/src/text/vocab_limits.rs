//! Limits of a vocabulary.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The tokens of the data that a vocabulary has: the most frequent ones. Others are read as [`Vocab::UNK`], in sources
/// and in targets, so that a model learns something of rare tokens together; an output never has that token.
///
/// [`Vocab::UNK`]: crate::Vocab::UNK
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VocabLimits {
    /// The fewest occurrences of a token.
    pub min_count: usize,
    /// The most tokens, beside the special ones: all if there is no limit. Of equally frequent ones those whose
    /// characters come first are kept.
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
    /// The most tokens that have an id.
    const MOST: usize = u32::MAX as usize;

    /// Checks the limits.
    ///
    /// # Errors
    /// [`Error::Config`] for one that is 0, or for more tokens than have an id.
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

    /// Checks that a vocabulary has a token whose most frequent one occurs `most` times; `side` is source or target.
    pub(crate) fn check_left(&self, side: &str, most: usize) -> Result<()> {
        if self.min_count <= most {
            return Ok(());
        }
        let expected = format!("at most {most}, the count of the most frequent {side} token");
        Err(Error::config("--min-count", &expected, self.min_count))
    }
}
