//! A training from the first epoch to the last.

mod epoch;

use std::time::Instant;

use epoch::{Loop, window_of};
use serde::Serialize;

use super::schedule::Schedule;
use super::state::State;
use super::{Communicator, Interrupter, TrainEvent, TrainObserver};
use crate::data::batches::Batches;
use crate::data::check_counts;
use crate::data::examples::Examples;
use crate::error::{Error, Result};
use crate::model::Seq2SeqModel;
use crate::run::{Epoch, Journal, RunDir, TrainConfig};

/// A training of a model, which leaves checkpoints and figures in the folder of a run.
///
/// The loss is [`Seq2SeqModel::loss`]: the mean cross-entropy over target tokens. The attention of a
/// [`Seq2Seq`](crate::Seq2Seq) may add its [penalty](attention_core::stateful::StatefulAttention::penalty): the sum
/// over examples, divided by the number of target tokens.
///
/// ```
/// use attention_core::DotProductAttentionConfig;
/// use attention_seq2seq::{Example, Interrupter, RunDir, Seq2SeqConfig, TrainConfig, TrainEvent, Training};
/// use attention_seq2seq::train::TrainingEnd;
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
#[derive(Debug)]
pub struct Training<M: Seq2SeqModel, O: TrainObserver = ()> {
    /// The model, on a training device (`device.autodiff()`).
    pub model: M,
    /// The examples to learn from.
    pub train: Examples,
    /// The examples to validate on after each epoch.
    pub valid: Examples,
    /// The settings.
    pub config: TrainConfig,
    /// The folder for checkpoints and figures. Without `resume_from`, files of an earlier training are removed.
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

/// The reason for which a training ended. Its JSON form is its name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrainingEnd {
    /// All epochs were trained, or all steps of [`TrainConfig::steps`] made.
    LastEpoch,
    /// The figure of [`TrainConfig::select`] was not better for as many epochs as the patience has.
    Patience,
    /// The time of [`TrainConfig::max_minutes`] is over.
    Time,
    /// It was interrupted within an epoch; nothing of that epoch is kept.
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
    /// out of its range, no target to validate on is long enough for [BLEU](crate::run::Select::check), the device
    /// fails or a [lock](RunDir::lock) on the folder is lost; [`Error::EmptyData`] if there is nothing to train or
    /// validate on; [`Error::Checkpoint`] if the checkpoint to go on from cannot be loaded; [`Error::Io`] if a
    /// checkpoint cannot be written. The folder then holds the epochs before.
    pub fn launch(self) -> Result<TrainingEnd> {
        self.launch_on(&())
    }

    /// [`launch`](Self::launch) on several processes: each calls it with the same model, examples and settings, on a
    /// device of its own. A batch has as many examples as in one process: each process learns from its share, and all
    /// make the same step with the gradients of the whole batch, summed over the processes in one message. The first
    /// alone validates, writes and tells its observer; the others read the checkpoint to go on from.
    ///
    /// Without dropout, losses and parameters equal one process's but for rounding; with it, each share drops elements
    /// of its own at random. Parameters are the same in all processes, to the bit, which is checked after each epoch.
    /// Another number of processes may go on with a run.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::RankDiffers`] if a process has other settings, examples or parameters than
    /// the first, [`Error::RankFailed`] if another failed, and the errors of the communicator. After any of them the
    /// processes should end: others may wait for this one.
    pub fn launch_on(self, communicator: &dyn Communicator) -> Result<TrainingEnd> {
        let alike = self.checksums();
        let (config, trained) = (&self.config, self.resume_from.unwrap_or(0));
        let device = self.model.devices().into_iter().next().unwrap_or_default();
        let longest = self.valid.longest_target();
        let begin = || {
            config.check()?;
            check_counts(self.train.len(), self.valid.len())?;
            config.select.check(|| longest)?;
            let state = State::new(self.model, config);
            let journal = self.run.journal(self.resume_from, config.select)?;
            match self.resume_from {
                Some(_) => Ok((state.load(&journal, trained)?, journal)),
                None => Ok((state, journal)),
            }
        };
        // What the others read is changed after they have read it.
        let (state, journal) = communicator.agree(begin())?;
        let [settings, train, valid, checkpoints] = alike;
        communicator.check_same(|| Ok([settings, train, valid, checkpoints, state.checksum()?]))?;
        communicator.at_first(|| journal.open())?;
        let train = Batches::new(self.train, self.config.batch_size);
        let (steps, clock) = (train.len(), journal.clock(trained));
        let training = Loop {
            schedule: Schedule::new(&self.config, steps, trained * steps, clock),
            train,
            valid: Batches::new(self.valid, self.config.batch_size),
            config: self.config,
            window: communicator.window(window_of(&device)),
            communicator,
            device,
            most_output: longest + longest / 4 + 2,
            interrupter: self.interrupter,
            observer: communicator.is_first().then_some(self.observer),
        };
        match training.all_epochs(trained, state, journal) {
            Err(Error::Stopped) => Ok(TrainingEnd::Interrupted),
            end => end,
        }
    }

    /// The checksums of what all processes must have alike, but for the parameters.
    fn checksums(&self) -> [(&'static str, u32); 4] {
        let settings = format!("{} {:?}", env!("CARGO_PKG_VERSION"), self.config);
        [
            ("settings", crc32fast::hash(settings.as_bytes())),
            ("training pairs", self.train.checksum()),
            ("validation pairs", self.valid.checksum()),
            ("checkpoints", self.resume_from.unwrap_or(0) as u32),
        ]
    }
}

impl<O: TrainObserver> Loop<'_, O> {
    /// Trains the epochs after `trained`.
    ///
    /// # Errors
    /// [`Error::Stopped`] where it is interrupted, and else as [`Training::launch_on`].
    fn all_epochs<M: Seq2SeqModel>(
        mut self,
        trained: usize,
        mut state: State<M>,
        mut journal: Journal<'_>,
    ) -> Result<TrainingEnd> {
        let TrainConfig {
            epochs,
            select,
            patience,
            ..
        } = self.config;
        let (communicator, steps) = (self.communicator, self.train.len());
        self.tell(&TrainEvent::Started { trained, epochs });
        for epoch in trained + 1..=epochs {
            // The first knows the history.
            let is_exhausted = select.is_exhausted(journal.history(), patience);
            if communicator.first([is_exhausted.into()])? != [0] {
                return Ok(TrainingEnd::Patience);
            }
            if self.schedule.left() == 0 {
                return Ok(TrainingEnd::LastEpoch);
            }
            self.read_clock()?;
            if self.schedule.is_out_of_time() {
                return Ok(TrainingEnd::Time);
            }
            let begun = self.schedule.begun();
            let made = self.train(epoch, state);
            let (next, train) = made.or_else(|error| self.ended_by(error, &mut journal))?;
            state = next;
            communicator.check_same(|| Ok([state.checksum()?]))?;
            communicator.at_first(|| {
                let validation = Instant::now();
                let valid = self.validate(epoch, &state)?;
                self.schedule.reserve(validation.elapsed());
                self.schedule.read_clock(Ok)?;
                let figures = Epoch {
                    epoch,
                    train,
                    valid,
                };
                state.save(&mut journal, figures, self.schedule.clock())?;
                self.tell(&TrainEvent::EpochEnded(figures));
                Ok(())
            })?;
            if self.schedule.left() > 0 && self.schedule.begun() < begun + steps {
                return Ok(TrainingEnd::Time);
            }
        }
        Ok(TrainingEnd::LastEpoch)
    }

    /// Ends a training by an error. After [`Error::Diverged`], which all processes meet in the same step, the newest
    /// checkpoint is one to go on from, and the error of the first names it; the others wait until that is written.
    fn ended_by<T>(&self, mut error: Error, journal: &mut Journal<'_>) -> Result<T> {
        if !matches!(error, Error::Diverged { .. }) {
            return Err(error);
        }
        let forget = || {
            if let Error::Diverged {
                step,
                steps,
                checkpoint,
                ..
            } = &mut error
            {
                // If no step was made in this epoch, the newest checkpoint has the parameters that every step was
                // refused with.
                if step <= steps {
                    journal.forget_diverged()?;
                }
                *checkpoint = journal.newest();
            }
            Err(error)
        };
        // The first fails here, and with it the others.
        self.communicator.at_first(forget)?.ok_or(Error::Stopped)
    }
}

#[cfg(test)]
mod tests;
