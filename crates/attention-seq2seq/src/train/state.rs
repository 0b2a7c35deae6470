//! Parameters and their moments: what a step changes, and a checkpoint holds.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;

use super::order::{number_parameters, optimizer_bytes};
use super::{Adam, TrainConfig, Trainee};
use crate::error::{Error, Result};
use crate::model::Seq2SeqModel;
use crate::run::{Epoch, Journal};

/// The number of steps refused in a row with which a training ends. A single batch can cause one; so many are caused by
/// the parameters or the data, and no step will mend them. `seq2seq train --help` says the number.
const MOST_REFUSED: usize = 10;

/// The highest norm to which gradients are clipped, whatever the settings say: Adam keeps squares of gradients in f32.
/// Where one is too large for that, its parameter would never change again. `seq2seq train --help` says the number.
const HIGHEST_CLIP: f32 = 1e18;

/// The parameters, their moments, and the count of refused steps: a step changes nothing else.
#[derive(Clone)]
pub(super) struct State<M: Seq2SeqModel> {
    pub(super) trainee: Trainee<M>,
    optimizer: ModuleOptimizer,
    /// The number of steps refused since the last that was made.
    refused: usize,
}

impl<M: Seq2SeqModel> State<M> {
    /// The state before the first step.
    pub(super) fn new(model: M, config: &TrainConfig) -> Self {
        let clip = config.clip.min(HIGHEST_CLIP);
        Self {
            trainee: Trainee::new(number_parameters(model)).with_clip(clip),
            optimizer: ModuleOptimizer::from(Adam::new()),
            refused: 0,
        }
    }

    /// The state in the checkpoint of an epoch.
    pub(super) fn load(self, journal: &Journal<'_>, epoch: usize) -> Result<Self> {
        let [(model_file, model), (optim_file, optim)] = journal.checkpoint(epoch)?;
        let model = ModuleRecord::from_bytes(Bytes::from_bytes_vec(model));
        let trainee = model.and_then(|model| self.trainee.try_load_record(model));
        let optimizer = self.optimizer.from_bytes(Bytes::from_bytes_vec(optim));
        Ok(Self {
            trainee: trainee.map_err(|error| Error::unusable(&model_file, error))?,
            optimizer: optimizer.map_err(|error| Error::unusable(&optim_file, error))?,
            refused: journal.refused(epoch),
        })
    }

    pub(super) fn save(&self, journal: &mut Journal<'_>, figures: Epoch) -> Result<()> {
        let failed = |error: RecordError| {
            let found = error.to_string().replace('\n', " ");
            Error::config("the checkpoint", "parameters that can be saved", found)
        };
        let model = self.trainee.clone().into_record().into_bytes();
        let optim = optimizer_bytes(&self.optimizer);
        let (model, optim) = (model.map_err(failed)?, optim.map_err(failed)?);
        journal.add(figures, self.refused, &model, &optim)
    }

    /// The optimizer, with the moments.
    #[cfg(test)]
    pub(super) fn optimizer(&self) -> &ModuleOptimizer {
        &self.optimizer
    }

    /// The state after a step.
    pub(super) fn step(mut self, rate: &ModuleLearningRate, gradients: GradientsParams) -> Self {
        self.trainee = self.optimizer.step(rate.clone(), self.trainee, gradients);
        self.refused = 0;
        self
    }

    /// The state after a step that was refused: the same, but for the count.
    ///
    /// # Errors
    /// [`Error::Diverged`] if it is one too many.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
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
