//! The metrics of an evaluation.

use attention_seq2seq::Evaluation;
use attention_seq2seq::metrics::{Bootstrap, Interval};
use serde::Serialize;

/// A metric of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// The name.
    pub(crate) name: String,
    /// The value, in the unit.
    pub(crate) value: f64,
    /// `%`, or empty.
    pub(crate) unit: &'static str,
    /// The bounds of the 95 % confidence interval, if there is one.
    pub(crate) interval: Option<[f64; 2]>,
}

impl Figure {
    /// The metrics of an evaluation that the program prints.
    pub(super) fn all(evaluation: &Evaluation) -> Vec<Self> {
        let sums = evaluation.sums();
        let intervals = evaluation.intervals(&Bootstrap::default());
        let errors = &sums.errors;
        let share = |name: &str, value: f64, interval: Option<Interval>| Self {
            name: name.to_string(),
            value: 100.0 * value,
            unit: "%",
            interval: interval.map(|Interval { lower, upper }| [100.0 * lower, 100.0 * upper]),
        };
        let score = |name: &str, value: f64, Interval { lower, upper }: Interval| Self {
            name: name.to_string(),
            value,
            unit: "",
            interval: Some([lower, upper]),
        };
        let mut all = vec![
            share("Exact match", errors.exact_match(), None),
            share(
                "Sequence error rate",
                errors.sequence_error_rate(),
                Some(intervals.sequence_error_rate),
            ),
            share(
                "Token error rate",
                errors.token_error_rate(),
                Some(intervals.token_error_rate),
            ),
        ];
        if evaluation.is_of_sentences() {
            all.push(score("BLEU", sums.bleu.score(), intervals.bleu));
            all.push(score("chrF", sums.chrf.score(), intervals.chrf));
        }
        if errors.cut_off() > 0 {
            all.push(Self {
                name: "Outputs cut off".to_string(),
                value: errors.cut_off() as f64,
                unit: "",
                interval: None,
            });
        }
        all
    }
}
