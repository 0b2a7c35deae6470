//! The thread of the model, which translates what waits as one batch, and explains one source at a time.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::translate::explain::Explanation;
use attention_seq2seq::{Error, Translator};
use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::answer::Failure;
use super::metrics::Metrics;
use super::queue::{Awaited, Explaining, Job, Queue, Translation};
use crate::machine::among_threads;

/// The way to the model. The thread ends once it is gone and its jobs are done.
pub(super) struct Batcher {
    jobs: mpsc::UnboundedSender<Job>,
    /// The places that are free.
    free: Arc<Semaphore>,
    /// The number of places.
    places: usize,
}

impl Batcher {
    /// Starts the thread of the model, which has at most `places` jobs at a time, waiting or under way.
    pub(super) fn start(
        translator: Arc<Translator>,
        places: NonZeroUsize,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let (batcher, jobs) = Self::new(places.get());
        let worker = Worker {
            translator,
            metrics,
            jobs,
        };
        let thread = thread::Builder::new().name("model".to_string());
        thread.spawn(|| worker.run())?;
        Ok(batcher)
    }

    /// The way, and where the jobs arrive.
    fn new(places: usize) -> (Self, Queue) {
        let (jobs, receiver) = mpsc::unbounded_channel();
        let places = places.min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(places));
        (Self { jobs, free, places }, Queue::new(receiver))
    }

    /// A place for a job, if one is free.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// Hands a job over. Where the model's thread has ended its reply closes.
    pub(super) fn submit(&self, job: Job) {
        // The error is the job itself, which is dropped.
        let _ = self.jobs.send(job);
    }

    /// Whether the thread of the model runs.
    pub(super) fn is_running(&self) -> bool {
        !self.jobs.is_closed()
    }

    /// The number of jobs that wait or are under way.
    pub(super) fn jobs(&self) -> usize {
        self.places - self.free.available_permits()
    }
}

struct Worker {
    translator: Arc<Translator>,
    metrics: Arc<Metrics>,
    jobs: Queue,
}

impl Worker {
    fn run(mut self) {
        while let Some(batch) = self.jobs.next(self.translator.batch_size()) {
            let mut translations = Vec::with_capacity(batch.len());
            for job in batch {
                match job {
                    Job::Translate(job) => translations.push(job),
                    Job::Explain(job) => {
                        let explanation = self.explanation(&job);
                        job.end(explanation);
                    }
                }
            }
            if !translations.is_empty() {
                self.translate(translations);
            }
        }
    }

    fn translate(&self, mut batch: Vec<Translation>) {
        let outputs = self.outputs(&batch);
        let sources: usize = batch.iter().map(|job| job.sources.len()).sum();
        self.metrics.sources.observe(sources as f64);
        match outputs {
            Ok(outputs) => {
                let mut outputs = outputs.into_iter();
                for job in batch {
                    let of_job = outputs.by_ref().take(job.sources.len()).collect();
                    job.end(Ok(of_job));
                }
            }
            Err(error) if batch.len() == 1 => batch.remove(0).end(Err(error)),
            // Others are not to suffer from what one of them asked for.
            Err(_) => batch.into_iter().for_each(|job| self.translate(vec![job])),
        }
    }

    /// The outputs of each source of a batch, as long as somebody waits for any of them.
    fn outputs(&self, batch: &[Translation]) -> Result<Vec<Vec<ScoredHypothesis>>, Failure> {
        let sources = batch.iter().flat_map(|job| &job.sources);
        let sources: Vec<&[String]> = sources.map(Vec::as_slice).collect();
        let search = &batch[0].config;
        let should_stop = || !batch.iter().any(Awaited::is_awaited);
        let translator = &self.translator;
        caught(|| translator.n_best_tokens_until(&sources, search, should_stop))
    }

    /// The explanation that a job asks for, as long as somebody waits for it.
    fn explanation(&self, job: &Explaining) -> Result<Explanation, Failure> {
        let (translator, source) = (&self.translator, &job.sources[0]);
        let should_stop = || !job.is_awaited();
        caught(|| translator.explain_tokens_until(source, &job.config, should_stop))
    }
}

/// The result of the model. A panic is the end of this work, and not of the server: nothing of a translator changes.
fn caught<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(|| among_threads(work))) {
        Ok(result) => Ok(result?),
        Err(_) => {
            let line = "the model panicked; the server's standard error has more";
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, line))
        }
    }
}

#[cfg(test)]
mod tests;
