//! A training from the first epoch to the last.

use std::time::Instant;

use super::schedule::Schedule;
use super::splits::Splits;
use super::state::State;
use super::{Interrupter, TrainEvent, TrainObserver};
use crate::data::check_counts;
use crate::error::{Error, Result};
use crate::examples::Examples;
use crate::model::Seq2SeqModel;
use crate::run::{Epoch, Journal, RunDir, TrainConfig};

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
    /// The epoch whose checkpoint training goes on from, one of [`RunDir::checkpoints`]. On one CPU, with as many
    /// threads and the same settings and examples, it ends with the parameters that it would have had in one go, bit
    /// for bit, unless its time is limited.
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
    /// All epochs were trained, or all steps of [`TrainConfig::steps`] made.
    LastEpoch,
    /// The figure of [`TrainConfig::select`] was not better for as many epochs as the patience has.
    Patience,
    /// The time of [`TrainConfig::max_minutes`] is over.
    Time,
    /// It was interrupted within an epoch, of which nothing is kept.
    Interrupted,
}

impl<M: Seq2SeqModel + 'static, O: TrainObserver> Training<M, O> {
    /// Trains, and tells the observer how it goes.
    ///
    /// Random numbers (the order of batches, dropout) come from the seed and the number of the epoch: the device is
    /// seeded anew in each. A checkpoint is written after each epoch, whole or not at all: the last two and the one
    /// with the best figure of [`TrainConfig::select`] are kept.
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
    /// out of its range, no target to validate on is long enough for [BLEU](crate::Select::check), the device fails or
    /// a [lock](RunDir::lock) on the folder is lost; [`Error::EmptyData`] if there is nothing to train or validate on;
    /// [`Error::Checkpoint`] if the checkpoint to go on from cannot be loaded; [`Error::Io`] if a checkpoint cannot be
    /// written. The folder then holds the epochs before.
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
        config.select.check(|| valid.longest_target())?;
        let device = model.devices().into_iter().next().unwrap_or_default();
        let mut state = State::new(model, &config);
        let mut journal = run.journal(resume_from, config.select)?;
        let last = resume_from.unwrap_or(0);
        if resume_from.is_some() {
            state = state.load(&journal, last)?;
        }
        journal.open()?;
        let batches = Splits::new(train, valid, &config, device);
        let steps_of_epoch = batches.train.len();
        let begun = last * steps_of_epoch;
        let clock = journal.state(last).clock;
        let mut schedule = Schedule::new(&config, steps_of_epoch, begun, clock);
        observer.observe(&TrainEvent::Started {
            trained: last,
            epochs: config.epochs,
        });
        for epoch in last + 1..=config.epochs {
            if config
                .select
                .is_exhausted(journal.history(), config.patience)
            {
                return Ok(TrainingEnd::Patience);
            }
            if schedule.left() == 0 {
                return Ok(TrainingEnd::LastEpoch);
            }
            if schedule.is_out_of_time() {
                return Ok(TrainingEnd::Time);
            }
            let begun = schedule.begun();
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
            let validation = Instant::now();
            let Some(valid) = batches.validate(epoch, &state, &interrupter, &mut observer)? else {
                return Ok(TrainingEnd::Interrupted);
            };
            let figures = Epoch {
                epoch,
                train,
                valid,
            };
            schedule.reserve(validation.elapsed());
            state.save(&mut journal, figures, schedule.clock())?;
            observer.observe(&TrainEvent::EpochEnded(figures));
            if schedule.left() > 0 && schedule.begun() < begun + steps_of_epoch {
                return Ok(TrainingEnd::Time);
            }
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
