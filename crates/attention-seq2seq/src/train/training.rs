//! A training from the first epoch to the last.

use burn::lr_scheduler::composed::ComposedLrSchedulerConfig;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;

use super::splits::Splits;
use super::state::State;
use super::{Interrupter, TrainConfig, TrainEvent, TrainObserver};
use crate::data::check_counts;
use crate::error::{Error, Result};
use crate::examples::Examples;
use crate::model::Seq2SeqModel;
use crate::run::{Epoch, Journal, RunDir, lowest_loss};

/// A training of a model, which leaves checkpoints and figures in the folder of a run.
///
/// The loss is that of [`Seq2SeqModel::loss`]: the mean cross-entropy over target tokens. The attention of a
/// [`Seq2Seq`](crate::Seq2Seq) may add its [penalty](attention_core::StatefulAttention::penalty): the sum over
/// examples, divided by the number of target tokens.
///
/// ```
/// use attention_core::DotProductAttentionConfig;
/// use attention_seq2seq::{
///     Example, Interrupter, RunDir, Seq2SeqConfig, TrainConfig, TrainEvent, Training, TrainingEnd,
/// };
/// use burn::tensor::Device;
///
/// let device = Device::flex().autodiff();
/// let attention = DotProductAttentionConfig::new().init();
/// let model = Seq2SeqConfig::new(8, 8).with_hidden_size(4).init(attention, &device);
/// let copies = |first| vec![Example { source: vec![first, 5], target: vec![first, 5] }].into();
///
/// let folder = tempfile::tempdir().unwrap();
/// let training = Training {
///     model,
///     train: copies(4),
///     valid: copies(6),
///     config: TrainConfig { epochs: 1, ..TrainConfig::default() },
///     run: RunDir::new(folder.path()),
///     resume_from: None,
///     interrupter: Interrupter::new(),
///     // Or `()`, to be told nothing.
///     observer: |event: &TrainEvent| {
///         if let TrainEvent::EpochEnded(epoch) = event {
///             println!("epoch {}: validation loss {:.4}", epoch.epoch, epoch.valid.loss);
///         }
///     },
/// };
/// assert_eq!(training.launch()?, TrainingEnd::LastEpoch);
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
pub struct Training<M: Seq2SeqModel, O: TrainObserver = ()> {
    /// The model, on a training device (`device.autodiff()`).
    pub model: M,
    /// The examples to learn from.
    pub train: Examples,
    /// The examples to validate on after each epoch.
    pub valid: Examples,
    /// The settings.
    pub config: TrainConfig,
    /// The folder for checkpoints and figures. Without `resume_from`, those of an earlier training there are removed.
    pub run: RunDir,
    /// The epoch whose checkpoint training goes on from, one of [`RunDir::checkpoints`]. On a CPU, with as many threads
    /// and the same settings and examples, it ends with the parameters that it would have had in one go, bit for bit.
    pub resume_from: Option<usize>,
    /// Stops training after the current step, on request from another thread.
    pub interrupter: Interrupter,
    /// The observer, which is told of each batch, each step that is refused and each epoch: a closure
    /// `FnMut(&TrainEvent)`, any other [`TrainObserver`], or `()`.
    pub observer: O,
}

/// The reason for which a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainingEnd {
    /// All epochs were trained.
    LastEpoch,
    /// The validation loss was not lower for as many epochs as the patience has.
    Patience,
    /// It was interrupted within an epoch, of which nothing is kept.
    Interrupted,
}

impl<M: Seq2SeqModel + 'static, O: TrainObserver> Training<M, O> {
    /// Trains, and tells the observer how it goes.
    ///
    /// Random numbers (the order of batches, dropout) come from the seed and the number of the epoch: the device is
    /// seeded anew in each. A checkpoint is written after each epoch, whole or not at all: the last two and the one
    /// with the lowest validation loss are kept.
    ///
    /// A step whose loss or gradients are not finite is refused: parameters and moments stay as they are, to the bit,
    /// and [`TrainEvent::StepRefused`] names the step and the first parameter with such a gradient. The figures of the
    /// epoch leave it out.
    ///
    /// After ten in a row training ends. The folder then has no checkpoint with the parameters that they were refused
    /// with, if that ended with a refused step or a validation loss that is not finite: the newest is one from before.
    ///
    /// # Errors
    /// [`Error::Diverged`] if ten steps in a row were refused, counted across epochs; [`Error::Config`] if a setting is
    /// out of its range, the device fails or a [lock](RunDir::lock) on the folder is lost; [`Error::EmptyData`] if
    /// there is nothing to train or validate on; [`Error::Checkpoint`] if the checkpoint to go on from cannot be
    /// loaded; [`Error::Io`] if a checkpoint cannot be written. The folder then holds the epochs before.
    pub fn launch(self) -> Result<TrainingEnd> {
        let Self {
            model,
            train,
            valid,
            config,
            run,
            resume_from,
            interrupter,
            mut observer,
        } = self;
        config.check()?;
        check_counts(train.len(), valid.len())?;
        let device = model.devices().into_iter().next().unwrap_or_default();
        let mut state = State::new(model, &config);
        let mut journal = run.journal(resume_from)?;
        let last = resume_from.unwrap_or(0);
        if resume_from.is_some() {
            state = state.load(&journal, last)?;
        }
        journal.open()?;
        let batches = Splits::new(train, valid, &config, device);
        let mut schedule = schedule(&config, batches.train.len())?;
        // Its state is the number of steps.
        (0..last * batches.train.len()).for_each(|_| {
            schedule.step();
        });
        observer.observe(&TrainEvent::Started {
            trained: last,
            epochs: config.epochs,
        });
        for epoch in last + 1..=config.epochs {
            if is_exhausted(journal.history(), config.patience) {
                return Ok(TrainingEnd::Patience);
            }
            let trained = batches.train(
                epoch,
                state,
                &config,
                &mut schedule,
                &interrupter,
                &mut observer,
            );
            let trained = trained.or_else(|error| Err(ended_by(error, &mut journal)?))?;
            let Some((next, train)) = trained else {
                return Ok(TrainingEnd::Interrupted);
            };
            state = next;
            let Some(valid) = batches.validate(epoch, &state, &interrupter, &mut observer)? else {
                return Ok(TrainingEnd::Interrupted);
            };
            let figures = Epoch {
                epoch,
                train,
                valid,
            };
            state.save(&mut journal, figures)?;
            observer.observe(&TrainEvent::EpochEnded(figures));
        }
        Ok(TrainingEnd::LastEpoch)
    }
}

/// The error with which a training ends. After [`Error::Diverged`] the newest checkpoint is one to go on from, and the
/// error names it.
fn ended_by(error: Error, journal: &mut Journal<'_>) -> Result<Error> {
    let Error::Diverged {
        epoch,
        step,
        steps,
        reason,
        ..
    } = error
    else {
        return Ok(error);
    };
    // If no step was made in this epoch, the newest checkpoint has the parameters that every step was refused with.
    if step <= steps {
        journal.forget_diverged()?;
    }
    Ok(Error::Diverged {
        epoch,
        step,
        steps,
        reason,
        checkpoint: journal.newest(),
    })
}

/// The part of all steps in which the learning rate may rise, as its reciprocal.
const LONGEST_WARMUP: usize = 4;

/// Adam's learning rate, step by step: along a cosine, whose first steps are a share of it.
pub(super) fn schedule(config: &TrainConfig, steps_of_epoch: usize) -> Result<ModuleLrScheduler> {
    let steps = steps_of_epoch.saturating_mul(config.epochs).max(1);
    let cosine = CosineAnnealingLrSchedulerConfig::new(config.learning_rate, steps)
        .with_min_lr(config.learning_rate * 0.01);
    let warmup = config.warmup.min(steps.div_ceil(LONGEST_WARMUP));
    let schedule = if warmup > 1 {
        let share = LinearLrSchedulerConfig::new(1.0 / warmup as f64, 1.0, warmup - 1);
        let product = ComposedLrSchedulerConfig::new();
        product.linear(share).cosine(cosine).init()
    } else {
        // A first step is whole.
        cosine.init()
    };
    schedule.map_err(|reason| Error::config("the learning rate", "one Burn accepts", reason))
}

/// Whether the last `patience` epochs had no lower validation loss.
fn is_exhausted(history: &[Epoch], patience: usize) -> bool {
    match (lowest_loss(history), history.last()) {
        (Some(lowest), Some(last)) => last.epoch.saturating_sub(lowest) >= patience,
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// The rates of two epochs of five steps.
    fn rates(warmup: usize) -> Vec<f64> {
        let config = TrainConfig {
            epochs: 2,
            learning_rate: 0.5,
            warmup,
            ..TrainConfig::default()
        };
        let mut schedule = schedule(&config, 5).unwrap();
        (0..10).map(|_| schedule.step().base()).collect()
    }

    #[test]
    fn the_learning_rate_rises_to_a_cosine_and_falls_along_it() {
        let cosine = rates(0);
        assert_eq!(cosine[0], 0.5);
        assert!(cosine.is_sorted_by(|a, b| a > b));
        // A step that is the first and the last of the rise is whole.
        assert_eq!(rates(1), cosine);
        for warmup in [2, 4, 10, 40] {
            for (step, (rate, whole)) in rates(warmup).into_iter().zip(&cosine).enumerate() {
                // A quarter of ten steps, and no more.
                let share = ((step + 1) as f64 / warmup.min(3) as f64).min(1.0);
                assert!(
                    (rate - share * whole).abs() < 1e-12,
                    "{warmup}, step {step}"
                );
            }
        }
    }
}
