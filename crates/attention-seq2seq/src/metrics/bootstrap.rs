//! Confidence intervals by the bootstrap.

use std::ops::AddAssign;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

/// Confidence intervals of metrics of a corpus, by the percentile bootstrap (Efron 1979; Koehn 2004 for BLEU): outputs
/// are drawn with replacement, and each such sample's metric is computed from the sums of its outputs' [`TokenErrors`],
/// [`Bleu`] or [`ChrF`].
///
/// [`TokenErrors`]: crate::metrics::TokenErrors
/// [`Bleu`]: crate::metrics::Bleu
/// [`ChrF`]: crate::metrics::ChrF
///
/// ```
/// use attention_seq2seq::metrics::{Bootstrap, TokenErrors};
///
/// let outputs = ["kat", "dog", "cow", "hen"].map(|output| {
///     let mut errors = TokenErrors::new();
///     errors.add(output.as_bytes(), &[output.replace('k', "c").as_bytes()]);
///     errors
/// });
/// let bootstrap = Bootstrap::default();
/// let [interval] = bootstrap.intervals(&outputs, |sums| [sums.sequence_error_rate()]);
/// assert_eq!((interval.lower, interval.upper), (0.0, 0.75));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// The number of samples.
    pub samples: usize,
    /// The fraction of samples whose figures are in the interval.
    pub confidence: f64,
    /// The seed of the samples.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 1,000 samples, 95 %.
    fn default() -> Self {
        Self {
            samples: 1_000,
            confidence: 0.95,
            seed: 1,
        }
    }
}

/// The interval in which a figure lies with some confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lowest figure in it.
    pub lower: f64,
    /// The highest figure in it.
    pub upper: f64,
}

impl Bootstrap {
    /// The intervals of several figures over the same samples. `outputs` are the statistics of single outputs, and
    /// `figures` computes the figures from the sum of several.
    ///
    /// The bounds are percentiles of the figures, interpolated linearly. The result depends on the seed alone, not on
    /// the number of threads.
    ///
    /// # Panics
    /// If there is no output or no sample, or the confidence is not between 0 and 1.
    pub fn intervals<S, const FIGURES: usize>(
        &self,
        outputs: &[S],
        figures: impl Fn(&S) -> [f64; FIGURES] + Sync,
    ) -> [Interval; FIGURES]
    where
        S: Copy + Default + AddAssign + Sync,
    {
        let (samples, confidence) = (self.samples, self.confidence);
        assert!(
            samples > 0 && confidence > 0.0 && confidence < 1.0,
            "Bootstrap: expected samples, and a confidence between 0 and 1, got {samples} and {confidence}"
        );
        assert!(
            !outputs.is_empty(),
            "Bootstrap: expected at least one output, got none"
        );
        let samples = (0..samples).into_par_iter().map(|sample| {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            random.set_stream(sample as u64);
            let mut sum = S::default();
            for _ in outputs {
                sum += outputs[random.random_range(0..outputs.len())];
            }
            figures(&sum)
        });
        let samples: Vec<[f64; FIGURES]> = samples.collect();
        std::array::from_fn(|figure| {
            let mut figures: Vec<f64> = samples.iter().map(|sample| sample[figure]).collect();
            figures.sort_by(f64::total_cmp);
            let outside = (1.0 - confidence) / 2.0;
            Interval {
                lower: percentile(&figures, outside),
                upper: percentile(&figures, 1.0 - outside),
            }
        })
    }
}

/// The figure below which a fraction of the sorted figures lies, interpolated linearly.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::TokenErrors;

    /// `all` outputs of one token each; `wrong` of them are wrong.
    fn outputs(wrong: usize, all: usize) -> Vec<TokenErrors> {
        let output = |index| {
            let mut errors = TokenErrors::new();
            errors.add(&[index < wrong], &[[false]]);
            errors
        };
        (0..all).map(output).collect()
    }

    #[test]
    fn percentiles_lie_between_their_neighbours() {
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (share, expected) in [
            (0.0, 1.0),
            (0.25, 2.0),
            (0.375, 3.0),
            (0.9, 12.8),
            (1.0, 16.0),
        ] {
            let difference = (percentile(&sorted, share) - expected).abs();
            assert!(difference < 1e-12, "{share}");
        }
        assert_eq!(percentile(&[3.0], 0.975), 3.0);
    }

    #[test]
    fn an_interval_is_that_of_the_binomial_distribution() {
        // The error rate of a sample is the mean of 400 draws whose rate is 0.2: its standard deviation is 0.02.
        let bootstrap = Bootstrap {
            samples: 4_000,
            ..Bootstrap::default()
        };
        let [interval] =
            bootstrap.intervals(&outputs(80, 400), |sums| [sums.sequence_error_rate()]);
        for (bound, expected) in [(interval.lower, -1.96), (interval.upper, 1.96)] {
            let difference = bound - (0.2 + expected * 0.02);
            assert!(difference.abs() < 0.003, "{interval:?}");
        }
        let narrower = Bootstrap {
            confidence: 0.5,
            ..bootstrap
        };
        let [inner] = narrower.intervals(&outputs(80, 400), |sums| [sums.sequence_error_rate()]);
        let difference = (inner.upper - (0.2 + 0.674 * 0.02)).abs();
        assert!(difference < 0.003, "{inner:?}");
    }

    #[test]
    fn a_seed_decides_the_samples_and_figures_share_them() {
        let intervals = |seed| {
            let bootstrap = Bootstrap {
                samples: 40,
                seed,
                ..Bootstrap::default()
            };
            bootstrap.intervals(&outputs(300, 1_000), |sums| {
                [sums.sequence_error_rate(), sums.exact_match()]
            })
        };
        assert_eq!(intervals(1), intervals(1));
        assert_ne!(intervals(1), intervals(2));
        let [wrong, right] = intervals(1);
        assert!((wrong.lower + right.upper - 1.0).abs() < 1e-12);
        assert!((wrong.upper + right.lower - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_output_and_equal_outputs_leave_nothing_open() {
        for outputs in [outputs(1, 1), outputs(9, 9)] {
            let [interval] =
                Bootstrap::default().intervals(&outputs, |sums| [sums.token_error_rate()]);
            assert_eq!((interval.lower, interval.upper), (1.0, 1.0));
        }
    }

    #[test]
    #[should_panic(
        expected = "expected samples, and a confidence between 0 and 1, got 1000 and NaN"
    )]
    fn settings_out_of_range_are_refused() {
        let confidence = f64::NAN;
        let bootstrap = Bootstrap {
            confidence,
            ..Bootstrap::default()
        };
        bootstrap.intervals(&outputs(1, 1), |sums| [sums.exact_match()]);
    }
}
