//! The jobs that wait for the model.

use std::iter::from_fn;
use std::mem::take;

use attention_seq2seq::SearchConfig;
use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::translate::explain::{ExplainConfig, Explanation};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::answer::Failure;

/// Sources whose result a request waits for.
pub(super) struct Awaited<C, T> {
    pub(super) sources: Vec<Vec<String>>,
    pub(super) config: C,
    /// It closes once nobody waits for the result, since the client is gone or the time is over.
    pub(super) reply: oneshot::Sender<Result<T, Failure>>,
    /// The job's place among those that may wait, which is free again once the job is done.
    pub(super) place: OwnedSemaphorePermit,
}

impl<C, T> Awaited<C, T> {
    /// Whether somebody waits for the result.
    pub(super) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Ends the job. Its place is free before the request goes on, so that whoever has an answer finds the place.
    pub(super) fn end(self, result: Result<T, Failure>) {
        drop(self.place);
        // Who asked may have gone.
        let _ = self.reply.send(result);
    }
}

/// Sources that are translated with those of jobs that ask for the same search; each one's outputs, the best first.
pub(super) type Translation = Awaited<SearchConfig, Vec<Vec<ScoredHypothesis>>>;

/// A source whose outputs are explained.
pub(super) type Explaining = Awaited<ExplainConfig, Explanation>;

/// Work that a request waits for.
pub(super) enum Job {
    Translate(Translation),
    Explain(Explaining),
}

impl Job {
    fn is_awaited(&self) -> bool {
        match self {
            Self::Translate(job) => job.is_awaited(),
            Self::Explain(job) => job.is_awaited(),
        }
    }

    pub(super) fn sources(&self) -> &[Vec<String>] {
        match self {
            Self::Translate(job) => &job.sources,
            Self::Explain(job) => &job.sources,
        }
    }

    /// Whether both are done at once. An explanation has many decodings of its own.
    fn joins(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Translate(one), Self::Translate(other)) => one.config == other.config,
            _ => false,
        }
    }
}

/// The jobs that wait.
pub(super) struct Queue {
    arriving: mpsc::UnboundedReceiver<Job>,
    /// Jobs that have arrived, and asked for something else than the batch before.
    waiting: Vec<Job>,
}

impl Queue {
    pub(super) fn new(arriving: mpsc::UnboundedReceiver<Job>) -> Self {
        let waiting = Vec::new();
        Self { arriving, waiting }
    }

    /// Waits for a job, and takes those with it that ask for the same: until they have `most` sources, or no other
    /// waits. Jobs that nobody waits for are left out. None once there will be no more.
    pub(super) fn next(&mut self, most: usize) -> Option<Vec<Job>> {
        if self.waiting.is_empty() {
            self.waiting.push(self.arriving.blocking_recv()?);
        }
        self.waiting
            .extend(from_fn(|| self.arriving.try_recv().ok()));
        let mut waiting = take(&mut self.waiting).into_iter();
        let first = waiting.next()?;
        let mut sources = first.sources().len();
        let (mut batch, others): (Vec<Job>, Vec<Job>) = waiting.partition(|job| {
            let joins = sources < most && job.joins(&first);
            sources += if joins { job.sources().len() } else { 0 };
            joins
        });
        batch.insert(0, first);
        batch.retain(Job::is_awaited);
        self.waiting = others;
        self.waiting.retain(Job::is_awaited);
        Some(batch)
    }
}
