//! The events of a training, and their observer.

use std::fmt;

use serde::Serialize;

use crate::run::{Epoch, Figures};

/// An event of a [`Training`](super::Training). Its JSON form has its name as `event`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrainEvent {
    /// Training begins, or goes on: settings and checkpoint are good.
    Started {
        /// The number of epochs that were trained before: 0 unless training is resumed.
        trained: usize,
        /// The number of epochs after which training ends, those before among them.
        epochs: usize,
    },
    /// A batch was learned from or validated on.
    BatchDone {
        /// The epoch, from 1.
        epoch: usize,
        /// The examples that the batch is from.
        split: Split,
        /// The number of batches of this split that are done in this epoch; a step that was refused counts.
        done: usize,
        /// The number of batches of this split.
        batches: usize,
        /// The means over the batches done, NaN before the first was read. On a GPU several are read at a time, so that
        /// it computes on meanwhile: the means may lag some batches behind.
        figures: Figures,
    },
    /// A step was refused: its loss or gradients are not finite. It changed nothing.
    StepRefused {
        /// The epoch, from 1.
        epoch: usize,
        /// The number of the step in the epoch, from 1.
        step: usize,
        /// The number of steps of an epoch.
        steps: usize,
        /// The fault: the first parameter whose gradient is not finite, or the loss.
        reason: String,
    },
    /// An epoch was trained and validated, and its checkpoint is on disk.
    EpochEnded(Epoch),
}

/// The examples that a batch is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Those to learn from.
    Train,
    /// Those to validate on.
    Valid,
}

/// `train` or `valid`.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Train => "train",
            Self::Valid => "valid",
        })
    }
}

/// An observer of a [`Training`](super::Training). It is told of each [`TrainEvent`] as it happens, by the thread that
/// trains, which waits meanwhile.
///
/// Any closure `FnMut(&TrainEvent)` is an observer; `()` is one that ignores everything.
pub trait TrainObserver {
    /// Takes note of an event.
    fn observe(&mut self, event: &TrainEvent);
}

impl TrainObserver for () {
    fn observe(&mut self, _: &TrainEvent) {}
}

impl<F: FnMut(&TrainEvent)> TrainObserver for F {
    fn observe(&mut self, event: &TrainEvent) {
        self(event);
    }
}
