//! The metrics of a training, epoch by epoch.

use serde::{Deserialize, Deserializer, Serialize};

/// The metrics of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// The number of the epoch, counted from 1.
    pub epoch: usize,
    /// Metrics on the training pairs, during training, under teacher forcing.
    pub train: Figures,
    /// Metrics on the validation pairs, after the epoch: the loss under teacher forcing, the others by greedy search.
    pub valid: Figures,
}

/// Means over all pairs, with nine decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The mean cross-entropy over target tokens (with label smoothing in training, if set), with the attention's
    /// penalty if it has one; NaN if training diverged.
    #[serde(deserialize_with = "number_or_nan")]
    pub loss: f64,
    /// The percentage of outputs that equal their target in every token.
    #[serde(deserialize_with = "number_or_nan")]
    pub exact_match: f64,
    /// The edits between outputs and targets per target token, in percent.
    #[serde(deserialize_with = "number_or_nan")]
    pub token_errors: f64,
    /// [BLEU](crate::metrics::Bleu) of outputs by tokens, each against the target of its pair, in percent, if training
    /// [selects](crate::run::Select::Bleu) by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bleu: Option<f64>,
}

impl Figures {
    /// Metrics rounded so that they are read back as they are, to the last bit.
    pub(crate) fn rounded(self) -> Self {
        Self {
            loss: rounded(self.loss),
            exact_match: rounded(self.exact_match),
            token_errors: rounded(self.token_errors),
            bleu: self.bleu.map(rounded),
        }
    }
}

/// JSON has no non-finite numbers, which are written as `null`. Moreover, `serde_json` may read a neighbour of the
/// number that it wrote.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = Option::deserialize(deserializer)?;
    Ok(rounded(number.unwrap_or(f64::NAN)))
}

fn rounded(number: f64) -> f64 {
    const PLACES: f64 = 1e9;
    (number * PLACES).round() / PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn figures_are_read_as_they_were_written_to_the_last_bit() {
        let mut losses: Vec<f64> = (0..10_000).map(|n| f64::from(n).sqrt() / 7.0).collect();
        losses.extend([0.1 + 0.2, 5e-324, 123_456.789, f64::NAN, f64::INFINITY]);
        for loss in losses {
            let written = Figures {
                loss,
                exact_match: 12.5,
                token_errors: 0.1,
                bleu: None,
            };
            let written = written.rounded();
            let text = serde_json::to_string(&written).unwrap();
            let read: Figures = serde_json::from_str(&text).unwrap();
            let is_same = read.loss.to_bits() == written.loss.to_bits();
            let is_read = is_same || (!loss.is_finite() && read.loss.is_nan());
            assert!(is_read, "{loss}");
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
