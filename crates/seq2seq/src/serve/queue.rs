//! The jobs that wait for the model.

use std::collections::VecDeque;
use std::time::Instant;

use attention_seq2seq::SearchConfig;
use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::translate::explain::{ExplainConfig, Explanation};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::answer::Failure;

/// Sources whose result a request waits for.
pub(super) struct Awaited<C, T> {
    pub(super) sources: Vec<Vec<String>>,
    pub(super) config: C,
    /// Nobody waits for the result after that.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<T, Failure>>,
    /// The job's place among those that may wait, which is free again once the job is done.
    pub(super) place: OwnedSemaphorePermit,
}

impl<C, T> Awaited<C, T> {
    /// Whether somebody waits for the result.
    pub(super) fn is_awaited(&self) -> bool {
        !self.reply.is_closed() && Instant::now() < self.deadline
    }

    /// Ends the job. Its place is free before the request goes on, so that whoever has an answer finds the place.
    pub(super) fn end(self, result: Result<T, Failure>) {
        let Self { reply, place, .. } = self;
        drop(place);
        // Who asked may have gone.
        let _ = reply.send(result);
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
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Jobs taken from there that ask for something else than the batch before.
    taken: VecDeque<Job>,
}

impl Queue {
    pub(super) fn new(jobs: mpsc::UnboundedReceiver<Job>) -> Self {
        let taken = VecDeque::new();
        Self { jobs, taken }
    }

    /// Waits for a job, and takes those with it that ask for the same: until they have `most` sources, or no other
    /// waits. Jobs that nobody waits for are left out. None once there will be no more.
    pub(super) fn next(&mut self, most: usize) -> Option<Vec<Job>> {
        let first = self.taken.pop_front();
        let first = first.or_else(|| self.jobs.blocking_recv())?;
        let mut sources = first.sources().len();
        let mut batch = vec![first];
        let mut others = VecDeque::new();
        while sources < most {
            let waiting = self.taken.pop_front().or_else(|| self.jobs.try_recv().ok());
            match waiting {
                Some(job) if job.joins(&batch[0]) => {
                    sources += job.sources().len();
                    batch.push(job);
                }
                Some(job) => others.push_back(job),
                None => break,
            }
        }
        // They came before those that are still there.
        others.append(&mut self.taken);
        self.taken = others;
        self.taken.retain(Job::is_awaited);
        batch.retain(Job::is_awaited);
        Some(batch)
    }
}
