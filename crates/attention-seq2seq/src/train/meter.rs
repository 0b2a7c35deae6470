//! The metrics of an epoch, updated step by step.

use burn::tensor::{Tensor, TensorReadError};

use super::failure::failed;
use super::{Split, StepOutput, TrainEvent};
use crate::data::batch::stacked;
use crate::error::Result;
use crate::metrics::{Bleu, TokenErrors};
use crate::run::Figures;
use crate::text::vocab::Vocab;

/// The means over the steps so far: the loss per target token, and the errors of all outputs together.
pub(super) struct Meter {
    /// The sum over target tokens.
    loss: f64,
    tokens: usize,
    errors: TokenErrors,
    /// The n-grams of all outputs, if they are counted.
    bleu: Option<Bleu>,
    /// Outputs that have not been read yet.
    waiting: Vec<StepOutput>,
    /// How many outputs may wait, so that a GPU can go on computing.
    most: usize,
}

impl Meter {
    /// A meter that reads outputs when there are `most`, and counts n-grams if `bleu` is given.
    pub(super) fn new(most: usize, bleu: Option<Bleu>) -> Self {
        Self {
            loss: 0.0,
            tokens: 0,
            errors: TokenErrors::default(),
            bleu,
            waiting: Vec::new(),
            most,
        }
    }

    pub(super) fn event(
        &self,
        epoch: usize,
        split: Split,
        done: usize,
        batches: usize,
    ) -> TrainEvent {
        TrainEvent::BatchDone {
            epoch,
            split,
            done,
            batches,
            figures: self.figures(),
        }
    }

    pub(super) fn add(&mut self, output: StepOutput) -> Result<()> {
        output.loss.device().flush().map_err(failed)?;
        self.waiting.push(output);
        match self.waiting.len() < self.most {
            true => Ok(()),
            false => self.read(),
        }
    }

    /// The error counts of all outputs, to sum over processes: each process has some of the outputs, but all losses.
    pub(super) fn counts(&mut self) -> Result<[&mut usize; 5]> {
        self.read()?;
        Ok(self.errors.counts_mut())
    }

    /// The means over all outputs.
    pub(super) fn finish(mut self) -> Result<Figures> {
        self.read()?;
        Ok(self.figures().rounded())
    }

    /// The means over the outputs that were read, NaN before the first one; errors in percent.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            loss: self.loss / self.tokens as f64,
            exact_match: 100.0 * self.errors.exact_match(),
            token_errors: 100.0 * self.errors.token_error_rate(),
            bleu: self.bleu.map(|bleu| bleu.score()),
        }
    }

    /// Reads all waiting outputs at once, because every read from a GPU costs time.
    fn read(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        self.count(waiting).map_err(failed)
    }

    fn count(&mut self, waiting: Vec<StepOutput>) -> std::result::Result<(), TensorReadError> {
        let (mut losses, mut outputs, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = Vec::new();
        for output in waiting {
            losses.push(output.loss);
            counts.push(output.tokens);
            outputs.push(output.outputs);
            targets.push(output.targets);
        }
        let losses = Tensor::cat(losses, 0).try_into_vec_as::<f64>()?;
        for (loss, tokens) in losses.into_iter().zip(counts) {
            self.loss += loss * tokens as f64;
            self.tokens += tokens;
        }
        let [outputs, targets] = [outputs, targets].map(stacked);
        let [[_, of_outputs], [_, of_targets]] = [outputs.dims(), targets.dims()];
        let [outputs, targets] = [outputs, targets].map(Tensor::try_into_vec_as::<i64>);
        let (outputs, targets) = (outputs?, targets?);
        let rows = outputs.chunks(of_outputs).zip(targets.chunks(of_targets));
        for (output, target) in rows {
            let [output, target] = [output, target].map(without_padding);
            let target = &of_known(target)[..];
            self.errors.add(output, &[target]);
            if let Some(bleu) = &mut self.bleu {
                *bleu += Bleu::of_tokens(without_end(output), &[without_end(target)]);
            }
        }
        Ok(())
    }
}

/// The tokens up to the last one that is not padding.
fn without_padding(tokens: &[i64]) -> &[i64] {
    let is_token = |&token: &i64| token != i64::from(Vocab::PAD);
    let len = tokens.iter().rposition(is_token).map_or(0, |last| last + 1);
    &tokens[..len]
}

/// A target in which unknown tokens never equal those of an output: which token each stands for is unknown.
fn of_known(target: &[i64]) -> Vec<i64> {
    let unknown = i64::from(Vocab::UNK);
    let of = |&token: &i64| if token == unknown { -1 } else { token };
    target.iter().map(of).collect()
}

fn without_end(tokens: &[i64]) -> &[i64] {
    let end = i64::from(Vocab::EOS);
    tokens.strip_suffix(&[end]).unwrap_or(tokens)
}

#[cfg(test)]
mod tests {
    use burn::data::dataloader::Progress;
    use burn::train::metric::{
        CerInput, CharErrorRate, LossInput, LossMetric, Metric, MetricMetadata, Numeric,
    };

    use super::*;
    use crate::device::test_device;

    fn output<const N: usize, const W: usize>(
        loss: f64,
        outputs: [[i64; W]; N],
        targets: [[i64; W]; N],
    ) -> StepOutput {
        let device = test_device();
        StepOutput {
            loss: Tensor::from_data([loss], &device),
            tokens: targets.iter().flatten().filter(|&&it| it != 0).count(),
            outputs: Tensor::from_data(outputs, &device),
            targets: Tensor::from_data(targets, &device),
        }
    }

    /// The figures after these outputs, of a meter that reads some at a time.
    fn figures(outputs: Vec<StepOutput>, most: usize) -> Figures {
        let mut meter = Meter::new(most, None);
        outputs.into_iter().for_each(|it| meter.add(it).unwrap());
        meter.read().unwrap();
        meter.figures()
    }

    #[test]
    fn only_whole_outputs_match() {
        let all = [[5, 6, 2], [7, 2, 0]];
        let right = output(0.5, all, all);
        assert_eq!(figures(vec![right.clone()], 1).exact_match, 100.0);
        // One token off; an end too early; a token after the end.
        let wrong = output(
            1.0,
            [[5, 6, 4], [2, 0, 0], [7, 2, 5], [7, 2, 0]],
            [[5, 6, 2], [7, 2, 0], [7, 2, 0], [7, 2, 0]],
        );
        assert_eq!(figures(vec![wrong.clone()], 1).exact_match, 25.0);
        // 3 of 6: every output weighs the same.
        assert_eq!(figures(vec![right, wrong], 1).exact_match, 50.0);
        // Errors that would cancel out in a sum of differences.
        let opposite = output(0.0, [[4, 6]], [[5, 5]]);
        assert_eq!(figures(vec![opposite], 1).exact_match, 0.0);
    }

    #[test]
    fn an_unknown_token_is_not_right() {
        let both = [[5, 3, 7, 8, 9, 2]];
        let mut meter = Meter::new(1, Some(Bleu::default()));
        meter.add(output(0.5, both, both)).unwrap();
        let found = meter.figures();
        assert_eq!(found.exact_match, 0.0);
        assert_eq!(found.token_errors, 100.0 * (1.0 / 6.0));
        let expected = Bleu::of_tokens(&[5, 3, 7, 8, 9], &[[5, 4, 7, 8, 9]]);
        assert_eq!(found.bleu, Some(expected.score()));
    }

    #[test]
    fn n_grams_are_counted_without_ends() {
        let one = output(0.5, [[5, 6, 7, 8, 9, 2]], [[5, 6, 7, 8, 2, 0]]);
        let mut meter = Meter::new(1, Some(Bleu::default()));
        meter.add(one.clone()).unwrap();
        let expected = Bleu::of_tokens(&[5, 6, 7, 8, 9], &[[5, 6, 7, 8]]);
        assert_eq!(meter.figures().bleu, Some(expected.score()));
        assert!(figures(vec![one], 1).bleu.is_none());
    }

    #[test]
    fn padding_within_an_output_is_a_token() {
        // Burn's metric would take the first three tokens of the output.
        let inner = output(0.0, [[5, 0, 4, 2]], [[5, 6, 4, 2]]);
        assert_eq!(figures(vec![inner], 1).token_errors, 25.0);
    }

    #[test]
    fn loss_and_token_errors_are_those_of_burns_metrics() {
        let outputs = [
            output(
                0.5,
                [[5, 6, 2, 0], [7, 7, 4, 2]],
                [[5, 4, 2, 0], [7, 4, 2, 0]],
            ),
            output(2.0, [[2, 0], [5, 2], [4, 4]], [[4, 2], [5, 2], [2, 0]]),
            output(0.25, [[5, 6, 7, 8, 2]], [[6, 7, 8, 2, 0]]),
        ];
        let metadata = MetricMetadata {
            progress: Progress {
                items_processed: 1,
                items_total: 1,
                unit: None,
            },
            iteration: None,
            lr: None,
        };
        let mut errors = CharErrorRate::new().with_pad_token(Vocab::PAD as usize);
        let mut loss = LossMetric::new();
        for output in &outputs {
            let step = output.clone();
            let cer = CerInput::new(step.outputs, step.targets);
            errors.update(&cer, &metadata).unwrap();
            // It weighs a batch by the number of its losses: here one for each token.
            let of_tokens = LossInput::new(step.loss.expand([step.tokens]));
            loss.update(&of_tokens, &metadata).unwrap();
        }
        for most in [1, 2, 8] {
            let actual = figures(outputs.to_vec(), most);
            let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
            close(actual.token_errors, errors.final_value().current());
            close(actual.loss, loss.final_value().current());
        }
    }
}
