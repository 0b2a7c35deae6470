//! The events of a training, and their observer.

use std::fmt;

use serde::Serialize;

use crate::run::{Epoch, Figures};

/// An event of a [`Training`](super::Training). Its JSON form has the variant's name as `event`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrainEvent {
    /// Training begins or continues: settings and checkpoint are valid.
    Started {
        /// The number of epochs trained before: 0 unless training is resumed.
        trained: usize,
        /// The number of epochs after which training ends, including those trained before.
        epochs: usize,
    },
    /// A batch was trained or validated on.
    BatchDone {
        /// The epoch, counted from 1.
        epoch: usize,
        /// The examples that the batch is from.
        split: Split,
        /// The number of finished batches of this split in this epoch, including refused steps.
        done: usize,
        /// The number of batches of this split.
        batches: usize,
        /// The means over the finished batches, NaN before the first was read. On a GPU several batches are read at a
        /// time, so that it goes on computing, and the means may lag some batches behind.
        figures: Figures,
    },
    /// A step was refused because its loss or gradients are not finite. It changed no parameter.
    StepRefused {
        /// The epoch, counted from 1.
        epoch: usize,
        /// The number of the step in the epoch, counted from 1.
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
    /// The training examples.
    Train,
    /// The validation examples.
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

/// An observer of a [`Training`](super::Training). The thread that trains calls it with each [`TrainEvent`] as it
/// happens, and waits for it to return.
///
/// Any closure `FnMut(&TrainEvent)` is an observer; `()` is one that ignores all events.
pub trait TrainObserver {
    /// Receives an event.
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
