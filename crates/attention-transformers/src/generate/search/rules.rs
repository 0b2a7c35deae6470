//! The rules of a search: which hypotheses go on, and how outputs are ordered.

use burn::config::Config;

use super::BeamSearchConfig;

/// The least that the weights of a source token add up to in the coverage penalty, whose logarithm would not be finite.
const LEAST_COVERAGE: f64 = 1e-6;

/// When the search of a text ends that has `beams` texts that ended: `early_stopping` of `transformers`.
#[derive(Config, Copy, Debug, PartialEq)]
pub enum EarlyStopping {
    /// At once: `True`.
    AtOnce,
    /// If the best beginning, were it to end now, would not score above the worst of these: `False`.
    Likely,
    /// If no text that goes on can score above the worst of these, with tokens of probability 1 up to `max_tokens`
    /// where the length penalty has an exponent above 0: `"never"`.
    Never,
}

/// The settings of a search, and its rules.
#[derive(Clone, Copy)]
pub(in crate::generate) struct Search<'a> {
    pub(in crate::generate) config: &'a BeamSearchConfig,
    pub(in crate::generate) rules: Rules,
}

/// The rules by which hypotheses go on, end and are ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::generate) enum Rules {
    /// The rules of [`BeamSearchConfig`]: an output takes the place of a hypothesis in the beam, and what cannot pass
    /// the outputs that are kept is dropped.
    Bounded,
    /// The rules of OpenNMT-py, as [`BeamSearchConfig::as_opennmt`] tells: an output takes the place of a hypothesis in
    /// the beam, and nothing is dropped.
    OpenNmt,
    /// The rules of `transformers`, as [`BeamConfig`](crate::BeamConfig) tells: as long as a search goes on, `beam`
    /// hypotheses do, and at the greatest length all of them end. An output has the token that ended it.
    Transformers { early_stopping: EarlyStopping },
}

impl Search<'_> {
    /// Whether outputs take no place of a hypothesis that goes on.
    pub(super) fn keeps_beam_full(&self) -> bool {
        matches!(self.rules, Rules::Transformers { .. })
    }

    /// The number of extensions that a step looks at, where `ends` tokens end an output.
    pub(super) fn extensions(&self, ends: usize) -> usize {
        match self.rules {
            Rules::Bounded | Rules::OpenNmt => self.config.beam,
            // Enough for a full beam, however many of them end.
            Rules::Transformers { .. } => self.config.beam * (1 + ends).max(2),
        }
    }

    /// The score of an output of `len` tokens, its end included; `coverage` has the sum of the attention weights of
    /// each source token, none if they do not count.
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
    /// a source that is covered. Without a bound it is infinite.
    pub(super) fn reach(&self, log_probability: f64) -> f64 {
        match self.rules {
            Rules::Bounded => self.normalized(log_probability, self.config.max_len),
            Rules::OpenNmt | Rules::Transformers { .. } => f64::INFINITY,
        }
    }

    /// The log-probability, with the length penalty.
    pub(super) fn normalized(&self, log_probability: f64, len: usize) -> f64 {
        let with_begin = len + usize::from(self.rules == Rules::OpenNmt);
        log_probability / self.config.length_penalty.divisor(with_begin)
    }
}
