//! Parameters and their moments, which a step changes and a checkpoint contains.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;

use super::average::{average, decay_at, like};
use super::order::{number_parameters, optimizer_bytes};
use super::{Adam, Trainee};
use crate::error::{Error, Result};
use crate::model::Seq2SeqModel;
use crate::run::{CheckpointFiles, Epoch, Journal, Part, TrainConfig, TrainingClock};

/// The number of consecutive refused steps after which a training ends. A single batch can cause one refusal; ten in a
/// row come from the parameters or the data, and no further step helps. `seq2seq train --help` names it.
const MOST_REFUSED: usize = 10;

/// The highest norm to which gradients are clipped, whatever the settings: Adam squares gradients in f32. If a square
/// overflows, its parameter would never change again. `seq2seq train --help` mentions this number.
const HIGHEST_CLIP: f32 = 1e18;

/// All that a step changes: parameters, moments, average, and the count of refused steps.
#[derive(Clone)]
pub(super) struct State<M: Seq2SeqModel> {
    pub(super) trainee: Trainee<M>,
    pub(super) optimizer: ModuleOptimizer,
    /// The average of the weights and its decay, if the model is this average.
    average: Option<(Trainee<M>, f64)>,
    /// The number of steps refused since the last successful one.
    refused: usize,
}

impl<M: Seq2SeqModel> State<M> {
    /// The state before the first step.
    pub(super) fn new(model: M, config: &TrainConfig) -> Self {
        let clip = config.clip.min(HIGHEST_CLIP);
        let trainee = Trainee::new(number_parameters(model)).with_clip(clip);
        let trainee = trainee.with_label_smoothing(config.label_smoothing);
        let average = (config.ema > 0.0).then(|| (trainee.valid(), config.ema));
        Self {
            trainee,
            optimizer: ModuleOptimizer::from(Adam::new()),
            average,
            refused: 0,
        }
    }

    pub(super) fn load(self, journal: &Journal<'_>, epoch: usize) -> Result<Self> {
        let files = journal.checkpoint(epoch)?;
        let unusable = |part: Part, error| journal.unusable(part, epoch, error);
        let load = |trainee: Trainee<M>, part, bytes| {
            ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes))
                .and_then(|record| trainee.try_load_record(record))
                .map_err(|error| unusable(part, error))
        };
        let optim = Bytes::from_bytes_vec(files.optim);
        let optimizer = self.optimizer.from_bytes(optim);
        let optimizer = optimizer.map_err(|error| unusable(Part::Optim, error))?;
        let (trainee, average) = match (self.average, files.weights) {
            (Some((average, decay)), Some(weights)) => {
                let average = load(average, Part::Model, files.model)?;
                let trainee = load(self.trainee, Part::Weights, weights)?;
                (trainee, Some((average, decay)))
            }
            (average, weights) => {
                // Only the weights, from which an average starts.
                let (part, bytes) = match weights {
                    Some(weights) => (Part::Weights, weights),
                    None => (Part::Model, files.model),
                };
                let trainee = load(self.trainee, part, bytes)?;
                let average = average.map(|(_, decay)| (trainee.valid(), decay));
                (trainee, average)
            }
        };
        Ok(Self {
            trainee,
            optimizer,
            average,
            refused: files.refused,
        })
    }

    /// Adds the state after an epoch, with its metrics, and time and steps so far if either is limited.
    pub(super) fn save(
        &self,
        journal: &mut Journal<'_>,
        figures: Epoch,
        clock: Option<TrainingClock>,
    ) -> Result<()> {
        let weights = bytes(&self.trainee)?;
        let (model, weights) = match &self.average {
            Some(_) => (bytes(&self.model())?, Some(weights)),
            None => (weights, None),
        };
        let optim = optimizer_bytes(&self.optimizer).map_err(unsaved)?.to_vec();
        let files = CheckpointFiles {
            model,
            optim,
            weights,
            refused: self.refused,
            clock,
        };
        journal.add(figures, &files)
    }

    /// The checksum of the parameters, to the bit.
    pub(super) fn checksum(&self) -> Result<(&'static str, u32)> {
        let bytes = bytes(&self.trainee)?;
        Ok(("parameters", crc32fast::hash(&bytes)))
    }

    /// The model to save: the average, if there is one.
    pub(super) fn model(&self) -> Trainee<M> {
        match &self.average {
            Some((average, _)) => like(average.clone(), &self.trainee),
            None => self.trainee.valid(),
        }
    }

    /// The state after a step with this number in the whole training, counted from 1.
    pub(super) fn step(mut self, number: usize, rate: f64, gradients: GradientsParams) -> Self {
        self.trainee = self.optimizer.step(rate, self.trainee, gradients);
        self.average = self.average.map(|(mean, decay)| {
            let mean = average(mean, &self.trainee, decay_at(number, decay));
            (mean, decay)
        });
        self.refused = 0;
        self
    }

    /// The state after a refused step: only the count changes.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the count reaches the limit.
    pub(super) fn refuse(mut self, epoch: usize, step: usize, reason: String) -> Result<Self> {
        self.refused += 1;
        if self.refused < MOST_REFUSED {
            return Ok(self);
        }
        Err(Error::Diverged {
            epoch,
            step,
            steps: self.refused,
            reason,
            checkpoint: None,
        })
    }
}

/// The file of the model's parameters.
fn bytes<M: Seq2SeqModel>(trainee: &Trainee<M>) -> Result<Vec<u8>> {
    let bytes = trainee.clone().into_record().into_bytes();
    bytes.map(|bytes| bytes.to_vec()).map_err(unsaved)
}

fn unsaved(error: RecordError) -> Error {
    let found = error.to_string().replace('\n', " ");
    Error::config("the checkpoint", "parameters that can be saved", found)
}

#[cfg(test)]
mod tests {
    use burn::optim::Optimizer;
    use burn::tensor::Tensor;

    use super::*;
    use crate::device::test_device;

    #[test]
    fn the_highest_norm_has_a_square_that_adam_can_keep() {
        let second_moment = |gradient: f32| {
            let gradient = Tensor::<1>::from_data([gradient], &test_device());
            let (_, state) = Adam::new().step(0.1, gradient.zeros_like(), gradient, None);
            let momentum = state.unwrap().momentum;
            momentum.moment_2.into_scalar::<f32>()
        };
        assert!(second_moment(HIGHEST_CLIP).is_finite());
        assert!(second_moment(100.0 * HIGHEST_CLIP).is_infinite());
    }
}
