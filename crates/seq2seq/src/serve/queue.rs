//! The jobs that wait for the model.

use std::collections::VecDeque;
use std::time::Instant;

use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::translate::explain::{ExplainConfig, Explanation};
use attention_seq2seq::{Error, SearchConfig};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// The reason why a job has no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// An error of the search: settings that the model cannot have, or probabilities that are none.
    Error(Error),
    /// The model panicked.
    Panicked,
}

/// Sources that are translated for one request.
pub(super) struct Texts {
    pub(super) sources: Vec<Vec<String>>,
    /// The search: jobs that ask for the same are translated together.
    pub(super) search: SearchConfig,
}

/// A source whose outputs are explained for one request.
pub(super) struct Text {
    pub(super) source: Vec<String>,
    pub(super) config: ExplainConfig,
}

/// Work whose result a request waits for.
pub(super) struct Awaited<W, T> {
    pub(super) work: W,
    /// Nobody waits for the result after that.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<T, Failed>>,
    /// The job's place among those that may wait.
    pub(super) place: Place,
}

impl<W, T> Awaited<W, T> {
    /// Whether somebody waits for the result.
    pub(super) fn is_awaited(&self) -> bool {
        !self.reply.is_closed() && Instant::now() < self.deadline
    }

    /// Ends the job. Its place is free before the request goes on, so that whoever has an answer finds the place.
    pub(super) fn end(self, result: Result<T, Failed>) {
        let Self { reply, place, .. } = self;
        drop(place);
        // Who asked may have gone.
        let _ = reply.send(result);
    }
}

/// Sources whose outputs are waited for; each source's outputs come the best first.
pub(super) type Translation = Awaited<Texts, Vec<Vec<ScoredHypothesis>>>;

/// Work that a request waits for.
pub(super) enum Job {
    Translate(Translation),
    Explain(Awaited<Text, Explanation>),
}

impl Job {
    fn is_awaited(&self) -> bool {
        match self {
            Self::Translate(job) => job.is_awaited(),
            Self::Explain(job) => job.is_awaited(),
        }
    }

    fn sources(&self) -> usize {
        match self {
            Self::Translate(job) => job.work.sources.len(),
            Self::Explain(_) => 1,
        }
    }

    /// Whether both are done at once. An explanation has many decodings of its own.
    fn joins(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Translate(one), Self::Translate(other)) => one.work.search == other.work.search,
            _ => false,
        }
    }
}

/// One of the places of jobs, which is free again once the job is done.
pub(super) struct Place(
    #[expect(dead_code, reason = "held until the job is done")] pub(super) OwnedSemaphorePermit,
);

/// The jobs that wait.
pub(super) struct Queue {
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Jobs taken from there that ask for something else than the batch before.
    taken: VecDeque<Job>,
}

impl Queue {
    pub(super) fn new(jobs: mpsc::UnboundedReceiver<Job>) -> Self {
        Self {
            jobs,
            taken: VecDeque::new(),
        }
    }

    /// Waits for a job, and takes those with it that ask for the same: until they have `most` sources, or no other
    /// waits. Jobs that nobody waits for are left out. None once there will be no more.
    pub(super) fn next(&mut self, most: usize) -> Option<Vec<Job>> {
        let first = self
            .taken
            .pop_front()
            .or_else(|| self.jobs.blocking_recv())?;
        let mut sources = first.sources();
        let mut batch = vec![first];
        let mut others = VecDeque::new();
        while sources < most {
            let waiting = self.taken.pop_front().or_else(|| self.jobs.try_recv().ok());
            match waiting {
                Some(job) if job.joins(&batch[0]) => {
                    sources += job.sources();
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
