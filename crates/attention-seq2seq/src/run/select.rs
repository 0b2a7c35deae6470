//! The metric by which checkpoints are kept and training is stopped.

use serde::{Deserialize, Serialize};

use super::Epoch;
use crate::error::{Error, Result};
use crate::metrics::Bleu;

/// The validation metric by which a training keeps checkpoints and [chooses the model](super::RunDir::keep_best), and
/// stops when it no longer improves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The loss under teacher forcing.
    #[default]
    Loss,
    /// The fraction of outputs of greedy search that differ from their target.
    ErrorRate,
    /// BLEU of outputs of greedy search, by tokens.
    Bleu,
}

impl Select {
    /// Checks that the metric can distinguish epochs. `longest_target` returns the number of tokens of the longest
    /// validation target, and is called for BLEU only.
    ///
    /// # Errors
    /// [`Error::Config`] for BLEU if all targets are shorter than its longest n-grams: it would be 0 in every epoch.
    pub fn check(self, longest_target: impl FnOnce() -> usize) -> Result<()> {
        if self != Self::Bleu {
            return Ok(());
        }
        let (longest, least) = (longest_target(), Bleu::MAX_ORDER);
        if longest >= least {
            return Ok(());
        }
        let what = "the longest validation target, to select by BLEU";
        let expected = format!(
            "at least {least} tokens, the longest n-grams that BLEU counts (--select error-rate or loss takes shorter \
             ones)"
        );
        Err(Error::config(what, expected, longest))
    }

    /// The metric of an epoch; lower is better.
    fn figure(self, epoch: &Epoch) -> f64 {
        match self {
            Self::Loss => epoch.valid.loss,
            Self::ErrorRate => 100.0 - epoch.valid.exact_match,
            Self::Bleu => 100.0 - epoch.valid.bleu.unwrap_or(f64::NAN),
        }
    }

    /// The metric that can distinguish epochs: the loss, as long as BLEU is 0 in each.
    fn told_by(self, history: &[Epoch]) -> Self {
        let is_zero = |epoch: &Epoch| epoch.valid.bleu == Some(0.0);
        match self {
            Self::Bleu if history.iter().all(is_zero) => Self::Loss,
            other => other,
        }
    }

    /// The best epoch, the first of equal ones; the first of all if every metric is NaN. As long as BLEU is 0 in every
    /// epoch, the loss decides.
    pub fn best(self, history: &[Epoch]) -> Option<usize> {
        let told = self.told_by(history);
        let figures = history.iter().map(|epoch| told.figure(epoch));
        let best = lowest(figures)?;
        Some(history[best].epoch)
    }

    /// Whether the last `patience` epochs were no better than an earlier one. Error rates and BLEU are judged by their
    /// mean over three epochs: for a few hundred outputs they fluctuate.
    pub(crate) fn is_exhausted(self, history: &[Epoch], patience: usize) -> bool {
        let told = self.told_by(history);
        let smoothed = |at: usize| match told {
            Self::Loss => told.figure(&history[at]),
            Self::ErrorRate | Self::Bleu => {
                let recent = &history[at.saturating_sub(2)..=at];
                recent.iter().map(|it| self.figure(it)).sum::<f64>() / recent.len() as f64
            }
        };
        match (lowest((0..history.len()).map(smoothed)), history.last()) {
            // A history from before BLEU was recorded.
            (Some(best), _) if self == Self::Bleu && smoothed(best).is_nan() => false,
            (Some(best), Some(last)) => last.epoch.saturating_sub(history[best].epoch) >= patience,
            _ => false,
        }
    }
}

/// The name of the metric, as shown to the user.
impl std::fmt::Display for Select {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Loss => "validation loss",
            Self::ErrorRate => "validation error rate",
            Self::Bleu => "100 - validation BLEU",
        })
    }
}

/// The index of the lowest number, the first of equal ones; NaN only if there is nothing else.
fn lowest(numbers: impl Iterator<Item = f64>) -> Option<usize> {
    let mut lowest: Option<(usize, f64)> = None;
    for (at, number) in numbers.enumerate() {
        let is_lower = |known: f64| number < known || known.is_nan() && !number.is_nan();
        if lowest.is_none_or(|(_, known)| is_lower(known)) {
            lowest = Some((at, number));
        }
    }
    lowest.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Figures;

    fn epochs(figures: &[f64]) -> Vec<Epoch> {
        let of = |number| Figures {
            loss: number,
            exact_match: 100.0 - number,
            token_errors: 0.1,
            bleu: Some(100.0 - number),
        };
        let of_epoch = |(epoch, &number): (usize, &f64)| Epoch {
            epoch,
            train: of(0.0),
            valid: of(number),
        };
        (1..).zip(figures).map(of_epoch).collect()
    }

    #[test]
    fn the_best_is_the_first_of_the_lowest_and_no_nan_if_there_is_another() {
        for (figures, expected) in [
            (&[][..], None),
            (&[3.0, 1.0, 2.0, 1.0], Some(2)),
            (&[f64::NAN, 5.0, f64::NAN], Some(2)),
            (&[2.0, f64::NAN], Some(1)),
            (&[f64::NAN; 2], Some(1)),
        ] {
            for select in [Select::Loss, Select::ErrorRate, Select::Bleu] {
                assert_eq!(select.best(&epochs(figures)), expected, "{figures:?}");
            }
        }
    }

    #[test]
    fn bleu_selects_among_targets_that_have_its_n_grams() {
        let error = Select::Bleu.check(|| 3);
        let error = error.err().map(|error| error.to_string());
        let expected = "the longest validation target, to select by BLEU: expected at least 4 tokens, the longest \
                        n-grams that BLEU counts (--select error-rate or loss takes shorter ones), found 3";
        assert_eq!(error.as_deref(), Some(expected));
        assert!(Select::Bleu.check(|| 4).is_ok());
        for select in [Select::Loss, Select::ErrorRate] {
            assert!(select.check(|| panic!("not asked for")).is_ok());
        }
    }

    #[test]
    fn the_loss_tells_while_bleu_is_zero() {
        let mut history = epochs(&[100.0; 5]);
        for (epoch, loss) in history.iter_mut().zip([5.0, 4.0, 3.0, 2.0, 2.5]) {
            epoch.valid.loss = loss;
        }
        assert_eq!(Select::Bleu.best(&history), Some(4));
        assert!(!Select::Bleu.is_exhausted(&history[..4], 1));
        assert!(Select::Bleu.is_exhausted(&history, 1));
        history[1].valid.bleu = Some(0.5);
        assert_eq!(Select::Bleu.best(&history), Some(2));
    }

    #[test]
    fn rates_of_outputs_are_judged_by_three_epochs() {
        // The mean over three falls on after the lowest epoch, the second, to the fourth.
        let figures = [9.0, 4.0, 5.0, 5.0, 6.0, 7.0];
        let exhausted = |select: Select, epochs_so_far: usize| {
            select.is_exhausted(&epochs(&figures[..epochs_so_far]), 2)
        };
        let of = |select| (1..=6).filter(move |&count| exhausted(select, count));
        assert_eq!(of(Select::Loss).collect::<Vec<_>>(), [4, 5, 6]);
        assert_eq!(of(Select::ErrorRate).collect::<Vec<_>>(), [6]);
        assert_eq!(of(Select::Bleu).collect::<Vec<_>>(), [6]);
        assert!(!Select::Loss.is_exhausted(&[], 1));
    }
}
