//! The rules of a search: which hypotheses continue, and how outputs are ordered.

use burn::config::Config;

use super::BeamSearchConfig;

/// The smallest sum of a source token's weights in the coverage penalty, which keeps the logarithm finite.
const LEAST_COVERAGE: f64 = 1e-6;

/// When the search for a text that has `beams` ended candidates ends: `early_stopping` of `transformers`.
#[derive(Config, Copy, Debug, PartialEq)]
pub enum EarlyStopping {
    /// Immediately: `True`.
    AtOnce,
    /// If the best beginning, ended now, would not score above the worst of these: `False`.
    Likely,
    /// If no beginning can ever score above the worst of these; for a length penalty with an exponent above 0, its
    /// further tokens up to `max_tokens` count with probability 1: `"never"`.
    Never,
}

/// The last change of a row of log-probabilities, after repetition; the number counts the tokens, from 1 on.
pub(in crate::generate) type Finish<'a> = dyn Fn(&mut [f64], usize) + Sync + 'a;

/// The settings of a search, and its rules.
#[derive(Clone, Copy)]
pub(in crate::generate) struct Search<'a> {
    pub(in crate::generate) config: &'a BeamSearchConfig,
    pub(in crate::generate) rules: Rules,
    pub(in crate::generate) finish: Option<&'a Finish<'a>>,
}

/// The rules by which hypotheses continue, end and are ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::generate) enum Rules {
    /// The rules of [`BeamSearchConfig`]: an output takes the place of a hypothesis in the beam, and hypotheses that
    /// cannot beat the kept outputs are dropped.
    Bounded,
    /// The rules of OpenNMT-py, see [`BeamSearchConfig::as_opennmt`]: an output takes the place of a hypothesis in the
    /// beam, and nothing is dropped.
    OpenNmt,
    /// The rules of `transformers`, see [`BeamConfig`](crate::BeamConfig): as long as a search runs, `beam` hypotheses
    /// continue, and at the greatest length all of them end. An output includes the token that ended it.
    Transformers { early_stopping: EarlyStopping },
}

impl Search<'_> {
    /// Whether outputs do not take the place of a continuing hypothesis.
    pub(super) fn keeps_beam_full(&self) -> bool {
        matches!(self.rules, Rules::Transformers { .. })
    }

    /// The number of extensions that a step examines, if `ends` tokens end an output.
    pub(super) fn extensions(&self, ends: usize) -> usize {
        match self.rules {
            Rules::Bounded | Rules::OpenNmt => self.config.beam,
            // Enough for a full beam, however many of them end.
            Rules::Transformers { .. } => self.config.beam * (1 + ends).max(2),
        }
    }

    /// The score of an output of `len` tokens, including its end token; `coverage` has the sum of the attention weights
    /// of each source token, and is empty if they do not count.
    pub(super) fn score(&self, log_probability: f64, len: usize, coverage: &[f64]) -> f64 {
        let normalized = self.normalized(log_probability, len);
        if coverage.is_empty() {
            return normalized;
        }
        let sums = coverage.iter();
        let covered = sums.map(|sum| sum.clamp(LEAST_COVERAGE, 1.0).ln());
        normalized + self.config.coverage_penalty * covered.sum::<f64>()
    }

    /// The highest score that a hypothesis can still reach: with tokens of probability 1 up to the greatest length, and
    /// full coverage of the source. It is infinite without a bound.
    pub(super) fn reach(&self, log_probability: f64) -> f64 {
        match self.rules {
            Rules::Bounded => self.normalized(log_probability, self.config.max_len),
            Rules::OpenNmt | Rules::Transformers { .. } => f64::INFINITY,
        }
    }

    /// The log-probability, divided by the length penalty.
    pub(super) fn normalized(&self, log_probability: f64, len: usize) -> f64 {
        let with_begin = len + usize::from(self.rules == Rules::OpenNmt);
        log_probability / self.config.length_penalty.divisor(with_begin)
    }
}
