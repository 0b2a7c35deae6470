//! The figures of an epoch, step by step.

use burn::train::ItemLazy;
use burn::train::metric::{Adaptor, CharErrorRate, LossMetric, Metric, Numeric, NumericEntry};

use super::StepOutput;
use super::metric::{ExactMatch, metadata};
use crate::error::{Error, Result};
use crate::run::Figures;
use crate::vocab::Vocab;

/// The means of the metrics over the steps so far.
pub(super) struct Meter {
    loss: LossMetric,
    exact_match: ExactMatch,
    token_errors: CharErrorRate,
    /// Outputs that are not read yet.
    waiting: Vec<StepOutput>,
    /// How many may wait: a GPU computes on while they do.
    most: usize,
}

impl Meter {
    /// A meter that reads outputs once there are `most`.
    pub(super) fn new(most: usize) -> Self {
        Self {
            loss: LossMetric::new(),
            exact_match: ExactMatch::new(),
            token_errors: CharErrorRate::new().with_pad_token(Vocab::PAD as usize),
            waiting: Vec::new(),
            most,
        }
    }

    /// Adds the output of a step.
    ///
    /// # Errors
    /// [`Error::Config`] if the device fails.
    pub(super) fn add(&mut self, output: StepOutput) -> Result<()> {
        self.waiting.push(output.sync().map_err(failed)?);
        match self.waiting.len() < self.most {
            true => Ok(()),
            false => self.read(),
        }
    }

    /// The means over all outputs.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn finish(mut self) -> Result<Figures> {
        self.read()?;
        Ok(self.figures().rounded())
    }

    /// The means over the outputs that were read.
    pub(super) fn figures(&self) -> Figures {
        let mean = |value: Option<NumericEntry>| value.map_or(0.0, |it| it.current());
        Figures {
            loss: mean(self.loss.running_value()),
            exact_match: mean(self.exact_match.running_value()),
            token_errors: mean(self.token_errors.running_value()),
        }
    }

    fn read(&mut self) -> Result<()> {
        let metadata = metadata();
        for output in self.waiting.drain(..) {
            self.loss
                .update(&output.adapt(), &metadata)
                .and_then(|_| self.exact_match.update(&output.adapt(), &metadata))
                .and_then(|_| self.token_errors.update(&output.adapt(), &metadata))
                .map_err(failed)?;
        }
        Ok(())
    }
}

/// The device could not compute what it was asked.
fn failed(error: impl std::fmt::Display) -> Error {
    let found = error.to_string().replace('\n', " ");
    Error::config("the device", "to compute a step of training", found)
}
