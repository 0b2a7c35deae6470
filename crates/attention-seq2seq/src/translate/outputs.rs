//! The outputs of a translator.

use serde::Serialize;

use crate::text::unknown::ReadTokens;

/// The translation of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hypothesis {
    /// The target tokens, without special tokens.
    pub tokens: Vec<String>,
    /// The tokens, joined to a text.
    pub text: String,
    /// Whether the model ended the output. If not, it was cut off at
    /// [`Translator::max_len`](crate::Translator::max_len) tokens;
    /// [`Translator::with_max_len`](crate::Translator::with_max_len) can allow more.
    pub ended: bool,
}

/// One of the best translations of a source, by [`Translator::n_best`](crate::Translator::n_best).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoredHypothesis {
    /// The tokens, joined to a text.
    pub text: String,
    /// The target tokens, without special tokens.
    pub tokens: Vec<String>,
    /// The sum of the natural logarithms of the tokens' probabilities, `<eos>` included if the output has ended.
    pub log_probability: f64,
    /// The score that orders outputs: the log-probability, if no penalty is set.
    pub score: f64,
    /// Whether the model ended the output. If not, the output was cut off.
    pub ended: bool,
}

impl ScoredHypothesis {
    /// The number of steps: one for each token, and one for the end token unless the output was cut off.
    pub(super) fn steps(&self) -> usize {
        self.tokens.len() + usize::from(self.ended)
    }
}

/// The probability of a given output, by [`Translator::score`](crate::Translator::score).
#[derive(Clone, Debug, PartialEq)]
pub struct TokenScores {
    /// The log-probability of each target token given the earlier ones, and finally that of `<eos>`.
    pub tokens: Vec<f64>,
    /// Their sum.
    pub log_probability: f64,
}

/// A translation, with the attention weights of each of its tokens.
#[derive(Clone, Debug)]
pub struct Attended {
    /// The source tokens, one for each key; followed by `<eos>` if the model attends to the end of a source, as a
    /// Transformer does.
    pub source: Vec<String>,
    /// The target tokens, one for each query; followed by `<eos>` if the output ended.
    pub target: Vec<String>,
    /// The translation.
    pub output: Hypothesis,
    /// The attention weights, `[queries, keys]`, row by row.
    pub weights: Vec<f32>,
    /// Whether the last key is the end of the source.
    pub attends_to_end: bool,
}

impl Attended {
    /// The weights for all tokens of the text that `source` was read from: tokens that were left out have 0.
    pub fn in_text(self, read: &ReadTokens) -> Self {
        let rows = self.weights.chunks(self.source.len().max(1));
        Self {
            weights: rows.flat_map(|row| read.in_text(row, |_| 0.0)).collect(),
            source: read.in_text(&self.source, str::to_owned),
            ..self
        }
    }
}
