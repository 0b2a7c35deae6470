//! The settings of a beam search.

use std::fmt::Display;

use burn::config::Config;

use super::{LengthPenalty, Rules, Search};
use crate::generate::repetition::Repetition;

/// The largest number of hypotheses of an example.
const MOST_BEAM: usize = 10_000;

/// Configuration of a beam search, which keeps the `beam` most likely beginnings of an output in each step.
///
/// A step extends each hypothesis by every token of the data and by the end token, and keeps the `beam` extensions of
/// the highest probability; one step serves all examples of a batch. Hypotheses extended by the end token are outputs;
/// the others continue. So a beam of one is greedy search: it stops when the end token is first the most likely token.
///
/// Outputs are ordered by their score, `log p / lp + cp`, where `log p` is the sum of the log-probabilities of their
/// tokens, including the end token, in `f64`. Probabilities are over the tokens of the data and the end token: padding,
/// begin and the unknown token, which no output has, are left out of the softmax. A token that the minimum length or a
/// prefix forbids keeps its probability, so that `log p` is what the model says of the output, however it was found.
///
/// - `lp` is the divisor of the [`LengthPenalty`] for the number of tokens, including the end token and a prefix.
///   Without one, the default, the most likely output is first.
/// - `cp = coverage_penalty * sum_i log(min(sum_t a_ti, 1))`, where `a_ti` is the attention weight of source token `i`
///   in step `t`; sums below 1e-6 count as 1e-6. It needs a recurrent model.
///
/// Wu et al. 2016, "Google's Neural Machine Translation System", section 7. Their penalties only order outputs; which
/// beginnings to keep is decided among beginnings of the same length. A repetition penalty and a limit on repeated
/// n-grams change the log-probabilities themselves, after the softmax, so that `log p` is no longer the model's.
///
/// With a beam of two or more the greedy output is one of the outputs if it ends, so that the best is at least as
/// likely: a search for one output finds it first, and a search for several continues its beginning even if others
/// crowd it out of the beam, unless none of these can be extended. Outputs that reach `max_len` without an end token
/// come after those that ended.
///
/// Once there are `n_best` outputs, a hypothesis is dropped if its *reach*, `log p` over `lp` at `max_len`, exceeds the
/// score of none of them. Dropping it changes no output:
///
/// - No output that begins with it is better than its reach: log-probabilities only fall, `lp` divides them the more
///   the longer the output is, and `cp` is at most 0.
/// - If that hypothesis or its descendants would crowd an extension out of the beam, the extension has the same length
///   and no higher log-probability, hence no higher reach: it would be dropped, too.
///
/// So the outputs are those of a beam search that drops nothing, and the greedy output; and the first of `n_best`
/// outputs is the output of the same search for one.
#[derive(Config, Debug)]
pub struct BeamSearchConfig {
    /// The largest number of tokens of an output, which is then cut off without an end token.
    pub max_len: usize,
    /// The number of hypotheses that a step keeps for each example.
    #[config(default = 1)]
    pub beam: usize,
    /// The number of outputs of each example, at most `beam`. There may be fewer if fewer are possible.
    #[config(default = 1)]
    pub n_best: usize,
    /// The length penalty, whose exponent is at least 0.
    #[config(default = "LengthPenalty::None")]
    pub length_penalty: LengthPenalty,
    /// The factor of the coverage penalty, at least 0.
    #[config(default = 0.0)]
    pub coverage_penalty: f64,
    /// The smallest number of tokens of an output, without the end token; less than `max_len`.
    #[config(default = 0)]
    pub min_len: usize,
    /// The tokens with which every output begins, which must be tokens of the data.
    #[config(default = "Vec::new()")]
    pub prefix: Vec<u32>,
    /// The factor on the log-probability of a token that the output already has (Keskar et al. 2019, "CTRL", section
    /// 4.1): above 1, tokens recur less often. Tokens of the prefix count, but are not penalized themselves.
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// The size of the n-grams that no output has twice; 0 for no limit. Tokens of the prefix count as for the penalty.
    #[config(default = 0)]
    pub no_repeat_ngram_size: usize,
    /// Whether to search like OpenNMT-py 3.5.1. The search for an example then ends with the first step whose most
    /// likely extension is an end token, once there are `n_best` outputs; by default it ends when no other output can
    /// be better. It does not add the greedy output. A hypothesis that reaches `max_len` is an output like the others,
    /// and the length penalty counts one token more, the one with which OpenNMT-py begins.
    #[config(default = false)]
    pub as_opennmt: bool,
}

impl BeamSearchConfig {
    /// The score of an output of `len` tokens, including its end token, that was found in another way; `coverage` has
    /// the sum of the attention weights of each source token, and is empty if they do not count.
    pub fn score(&self, log_probability: f64, len: usize, coverage: &[f64]) -> f64 {
        self.by_rules().score(log_probability, len, coverage)
    }

    pub(super) fn by_rules(&self) -> Search<'_> {
        let rules = match self.as_opennmt {
            true => Rules::OpenNmt,
            false => Rules::Bounded,
        };
        Search {
            config: self,
            rules,
            finish: None,
        }
    }

    pub(super) fn repetition(&self) -> Repetition {
        Repetition {
            penalty: self.repetition_penalty,
            ngram_size: self.no_repeat_ngram_size,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`SearchError::Setting`] for the first setting out of its range.
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
        check_factor(
            "the exponent of the length penalty",
            self.length_penalty.exponent(),
        )?;
        check_factor("the coverage penalty", self.coverage_penalty)?;
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            let (what, expected) = ("the repetition penalty", "a number above 0");
            return Err(SearchError::setting(
                what,
                expected,
                self.repetition_penalty,
            ));
        }
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

/// The reason why a search has no outputs.
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
        /// The number of the token without a probability, counted from 1.
        position: usize,
    },
    /// `should_stop` returned that nobody waits for the outputs any more.
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
