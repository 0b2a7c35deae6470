//! The settings of a beam search.

use std::fmt::Display;

use burn::config::Config;

use super::{Rules, Search};

/// The most hypotheses of an example.
const MOST_BEAM: usize = 10_000;

/// Configuration of a beam search, which keeps the `beam` most likely beginnings of an output at each step.
///
/// A step extends each of them by every token of the data and by the end, and keeps the `beam` extensions of the
/// highest probability, all examples of a batch in one step. Hypotheses that the end extends are outputs; the others go
/// on. So a beam of one is greedy search: it stops with the first end that is the most likely token.
///
/// Outputs are ordered by their score, `log p / lp + cp`, where `log p` is the sum of the log-probabilities of their
/// tokens, the end included, in `f64`. A probability is over the tokens of the data and the end: padding, begin and the
/// unknown token, which no output has, are left out of the softmax. A token that the minimum length or a prefix forbids
/// keeps its share, so that `log p` is what the model says of the output, however it was found.
///
/// - `lp = ((5 + n) / 6)^length_penalty`, where `n` is the number of tokens, the end included. At 0, the default, the
///   most likely output is first. Above, long outputs gain.
/// - `cp = coverage_penalty * sum_i log(min(sum_t a_ti, 1))`, where `a_ti` is the attention weight of source token `i`
///   at step `t`; a sum below 1e-6 counts as that. It needs a recurrent model.
///
/// Wu et al. 2016, "Google's Neural Machine Translation System", section 7. Their penalties order outputs only; which
/// beginnings are kept is decided among beginnings of one length.
///
/// With a beam of two or more the greedy output is one of the outputs if it ends, so that none is less likely: a search
/// for one finds it first, and one for several goes on with its beginning even where others crowd it out of the beam,
/// unless none of these can be extended.
/// Outputs that reach `max_len` without an end come after those that ended.
///
/// Once there are `n_best` outputs, a hypothesis is dropped if its *reach*, `log p` over `lp` at `max_len`, passes none
/// of them. That changes no output:
///
/// - No output that begins with it is better than its reach: log-probabilities only fall, which `lp` divides the more
///   the longer the output is, and `cp` is not above 0.
/// - An extension that it, or what would have come of it, crowds out of the beam has the same length and no higher
///   log-probability, so that its reach is no higher: it would be dropped, too.
///
/// So the outputs are what a beam search that drops nothing finds, and the greedy output, and the first of
/// `n_best` outputs is the output of the same search for one.
#[derive(Config, Debug)]
pub struct BeamSearchConfig {
    /// The most tokens of an output; one without an end by then is cut off.
    pub max_len: usize,
    /// The number of hypotheses that a step keeps of each example.
    #[config(default = 1)]
    pub beam: usize,
    /// The number of outputs of each example, at most `beam`. There are fewer where fewer are possible.
    #[config(default = 1)]
    pub n_best: usize,
    /// The exponent of the length penalty, from 0.
    #[config(default = 0.0)]
    pub length_penalty: f64,
    /// The factor of the coverage penalty, from 0.
    #[config(default = 0.0)]
    pub coverage_penalty: f64,
    /// The fewest tokens of an output, its end not counted; less than `max_len`.
    #[config(default = 0)]
    pub min_len: usize,
    /// The tokens with which every output begins; tokens of the data.
    #[config(default = "Vec::new()")]
    pub prefix: Vec<u32>,
}

impl BeamSearchConfig {
    /// The score of an output of `len` tokens, its end included, that was found in another way; `coverage` has the sum
    /// of the attention weights of each source token, none where they do not count.
    pub fn score(&self, log_probability: f64, len: usize, coverage: &[f64]) -> f64 {
        let (config, rules) = (self, Rules::Bounded);
        Search { config, rules }.score(log_probability, len, coverage)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`SearchError::Setting`] for the first that is out of its range.
    pub fn check(&self) -> Result<(), SearchError> {
        if !(1..=MOST_BEAM).contains(&self.beam) {
            let expected = format!("1 to {MOST_BEAM}");
            return Err(SearchError::setting("the beam", expected, self.beam));
        }
        if !(1..=self.beam).contains(&self.n_best) {
            let what = "the number of best outputs";
            let expected = format!("1 to {}, as many as the beam has hypotheses", self.beam);
            return Err(SearchError::setting(what, expected, self.n_best));
        }
        check_factor("the length penalty", self.length_penalty)?;
        check_factor("the coverage penalty", self.coverage_penalty)?;
        if self.min_len > 0 && self.min_len >= self.max_len {
            let expected = format!("less than {}, where outputs are cut off", self.max_len);
            return Err(SearchError::setting(
                "the minimum length",
                expected,
                self.min_len,
            ));
        }
        if self.prefix.len() > self.max_len {
            let expected = format!("at most {} tokens, where outputs are cut off", self.max_len);
            return Err(SearchError::setting(
                "the prefix",
                expected,
                self.prefix.len(),
            ));
        }
        Ok(())
    }
}

fn check_factor(what: &'static str, factor: f64) -> Result<(), SearchError> {
    match factor >= 0.0 && factor.is_finite() {
        true => Ok(()),
        false => Err(SearchError::setting(what, "a number from 0", factor)),
    }
}

/// The reason for which a search has no outputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// A setting is out of its range.
    #[error("{what}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its range.
        expected: String,
        /// Its value.
        found: String,
    },
    /// Logits of the model are NaN or infinite.
    #[error("finite logits expected, got others for token {position}")]
    NoProbabilities {
        /// The number of the token that has no probability, from 1.
        position: usize,
    },
    /// Nobody waits for the outputs any more.
    #[error("the search was stopped")]
    Stopped,
}

impl SearchError {
    pub(super) fn setting(what: &'static str, expected: impl Display, found: impl Display) -> Self {
        Self::Setting {
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
