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

/// A training of a model, which leaves checkpoints and metrics in the folder of a run.
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
    /// The training examples.
    pub train: Examples,
    /// The examples for validation after each epoch.
    pub valid: Examples,
    /// The settings.
    pub config: TrainConfig,
    /// The folder for checkpoints and metrics. Without `resume_from`, files of an earlier training are removed.
    pub run: RunDir,
    /// The epoch whose checkpoint training continues from, one of [`RunDir::checkpoints`]. On the same CPU, with as
    /// many threads and the same settings and examples, it ends with the same parameters as an uninterrupted training,
    /// bit for bit, unless its time is limited.
    pub resume_from: Option<usize>,
    /// Stops training after the current step, on request from another thread.
    pub interrupter: Interrupter,
    /// The observer of every batch, refused step and epoch: a closure `FnMut(&TrainEvent)`, any other
    /// [`TrainObserver`], or `()`.
    pub observer: O,
}

/// The reason why a training ended. Its JSON form is its name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrainingEnd {
    /// All epochs were trained, or all of [`TrainConfig::steps`] made.
    LastEpoch,
    /// The metric of [`TrainConfig::select`] has not improved for `patience` epochs.
    Patience,
    /// The time of [`TrainConfig::max_minutes`] has passed.
    Time,
    /// It was interrupted within an epoch; nothing of that epoch is kept.
    Interrupted,
}

impl<M: Seq2SeqModel + 'static, O: TrainObserver> Training<M, O> {
    /// Trains, and reports progress to the observer.
    ///
    /// Random numbers (the order of batches, dropout) come from the seed and the number of the epoch: the device is
    /// seeded anew in each epoch. A checkpoint is written atomically after each epoch: the last two and the one with
    /// the best metric of [`TrainConfig::select`] are kept.
    ///
    /// A step whose loss or gradients are not finite is refused: parameters and moments stay as they are, to the bit,
    /// and [`TrainEvent::StepRefused`] names the step and the first parameter with such a gradient. The metrics of the
    /// epoch leave the step out.
    ///
    /// After ten consecutive refusals training ends. If it ended with a refused step or a validation loss that is not
    /// finite, the folder has no checkpoint with the parameters of these refusals: the newest is an earlier one.
    ///
    /// # Errors
    /// [`Error::Diverged`] if ten consecutive steps were refused, counted across epochs; [`Error::Config`] if a setting
    /// is out of its range, no validation target is long enough for [BLEU](crate::run::Select::check), the device fails
    /// or a [lock](RunDir::lock) on the folder is lost; [`Error::EmptyData`] without training or validation examples;
    /// [`Error::Checkpoint`] if the checkpoint to continue from cannot be loaded; [`Error::Io`] if a checkpoint cannot
    /// be written. The folder then has the earlier epochs.
    pub fn launch(self) -> Result<TrainingEnd> {
        self.launch_on(&())
    }

    /// [`launch`](Self::launch) on several processes: each calls it with the same model, examples and settings, on its
    /// own device. A batch has as many examples as with one process: each process learns from its part, and all make
    /// the same step with the gradients of the whole batch, summed over the processes in one message. Only the first
    /// process validates, writes and calls its observer; the others read the checkpoint to continue from.
    ///
    /// Without dropout, losses and parameters equal those of a single process except for rounding; with it, each
    /// process drops different random elements. Parameters are the same in all processes, to the bit, which is checked
    /// after each epoch. A run may be continued with another number of processes.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::RankDiffers`] if a process has other settings, examples or parameters than
    /// the first, [`Error::RankFailed`] if another failed, and the errors of the communicator. After any error the
    /// processes should end, because others may be waiting for this one.
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
        // The others have read the files before they are changed.
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

    /// The checksums of all that must be the same in all processes, except the parameters.
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
    /// [`Error::Stopped`] if it is interrupted, otherwise as [`Training::launch_on`].
    fn all_epochs<M: Seq2SeqModel>(
        mut self,
        trained: usize,
        mut state: State<M>,
        mut journal: Journal<'_>,
    ) -> Result<TrainingEnd> {
        let (epochs, select) = (self.config.epochs, self.config.select);
        let patience = self.config.patience;
        let (communicator, steps) = (self.communicator, self.train.len());
        self.tell(&TrainEvent::Started { trained, epochs });
        for epoch in trained + 1..=epochs {
            // Only the first process knows the history.
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

    /// Ends a training with an error. After [`Error::Diverged`], which all processes meet in the same step, the newest
    /// checkpoint is one to continue from, and the first process's error names it; the others wait until it is written.
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
                // If no step was made in this epoch, the newest checkpoint has the parameters with which every step was
                // refused.
                if step <= steps {
                    journal.forget_diverged()?;
                }
                *checkpoint = journal.newest();
            }
            Err(error)
        };
        // The first process fails here, and the others with it.
        self.communicator.at_first(forget)?.ok_or(Error::Stopped)
    }
}

#[cfg(test)]
mod tests;
