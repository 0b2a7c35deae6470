//! The log of a training: lines for the user, JSON objects, or nothing.

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use attention_seq2seq::metrics::TokenErrors;
use attention_seq2seq::run::Epoch;
use attention_seq2seq::train::{TrainObserver, TrainingEnd};
use attention_seq2seq::{Result, RunConfig, TrainEvent};
use clap::Args;
use serde::Serialize;

use super::progress::{Progress, note_refused};
use crate::output::{say, say_to_anyone};

/// The form of the log.
#[derive(Args)]
pub(super) struct LogArgs {
    /// Log objects of JSON, one in a line of the standard output, in the place of text: `prepared`, `started`, each
    /// `epoch` and `step_refused`, and `ended` with the figures of the model.
    #[arg(long)]
    json: bool,
    /// Log nothing: only notes and errors are written, on the standard error.
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

impl LogArgs {
    pub(super) fn log(&self) -> Log {
        match (self.json, self.quiet) {
            (true, _) => Log::Json,
            (_, true) => Log::Quiet,
            _ => Log::Text,
        }
    }
}

/// The log of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    Text,
    Json,
    Quiet,
}

/// An event of a training in the JSON log, in addition to the [`TrainEvent`]s, which are written unchanged. Non-finite
/// metrics are `null`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// Data and settings are valid, and the device is open.
    Prepared {
        folder: &'a Path,
        device: &'a str,
        train_pairs: usize,
        valid_pairs: usize,
        settings: &'a RunConfig,
    },
    /// An epoch has ended.
    Epoch {
        #[serde(flatten)]
        epoch: Epoch,
        epochs: usize,
        /// The seconds since training started.
        seconds: f64,
    },
    /// Training has ended, and the model is chosen.
    Ended {
        reason: TrainingEnd,
        seconds: f64,
        /// The epoch of the model, if one was trained.
        model: Option<usize>,
        /// The quality of the model on the validation pairs.
        valid: Option<Quality>,
    },
}

/// The quality of a model's translations, in percent.
#[derive(Serialize)]
pub(super) struct Quality {
    sources: usize,
    exact_match: f64,
    sequence_errors: f64,
    token_errors: f64,
    cut_off: usize,
}

impl From<&TokenErrors> for Quality {
    fn from(errors: &TokenErrors) -> Self {
        Self {
            sources: errors.sequences(),
            exact_match: 100.0 * errors.exact_match(),
            sequence_errors: 100.0 * errors.sequence_error_rate(),
            token_errors: 100.0 * errors.token_error_rate(),
            cut_off: errors.cut_off(),
        }
    }
}

impl Log {
    /// Prints a line of the text.
    pub(super) fn say(self, line: impl Display) -> Result<()> {
        match self {
            Self::Text => say(line),
            Self::Json | Self::Quiet => Ok(()),
        }
    }

    /// As [`say`](Self::say), if anybody reads it.
    pub(super) fn say_to_anyone(self, line: impl Display) -> Result<()> {
        match self {
            Self::Text => say_to_anyone(line),
            Self::Json | Self::Quiet => Ok(()),
        }
    }

    /// Prints a JSON event, if anybody reads it.
    pub(super) fn tell(self, event: &impl Serialize) -> Result<()> {
        match self {
            Self::Json => say_to_anyone(serde_json::json!(event)),
            Self::Text | Self::Quiet => Ok(()),
        }
    }

    pub(super) fn observer(self) -> Observer {
        match self {
            Self::Text => Observer::Text(Progress::new()),
            Self::Json => Observer::Json {
                epochs: 0,
                started: Instant::now(),
            },
            Self::Quiet => Observer::Quiet,
        }
    }
}

/// The observer of a training that is logged.
pub(super) enum Observer {
    Text(Progress),
    Json { epochs: usize, started: Instant },
    Quiet,
}

impl TrainObserver for Observer {
    fn observe(&mut self, event: &TrainEvent) {
        if let Self::Text(progress) = self {
            return progress.observe(event);
        }
        note_refused(event);
        if let Self::Json { epochs, started } = self {
            // Training continues whether or not anybody reads it, as with text.
            let _ = tell(event, epochs, started);
        }
    }
}

/// Prints a relevant event, and stores what later events need.
fn tell(event: &TrainEvent, of_epochs: &mut usize, started: &mut Instant) -> Result<()> {
    match event {
        TrainEvent::Started { epochs, .. } => (*of_epochs, *started) = (*epochs, Instant::now()),
        TrainEvent::EpochEnded(epoch) => {
            return Log::Json.tell(&Event::Epoch {
                epoch: *epoch,
                epochs: *of_epochs,
                seconds: started.elapsed().as_secs_f64(),
            });
        }
        TrainEvent::StepRefused { .. } => {}
        _ => return Ok(()),
    }
    Log::Json.tell(event)
}
