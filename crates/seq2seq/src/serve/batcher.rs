//! The model, which does one thing at a time: it translates waiting texts as one batch, or explains a source.

use std::io;
use std::iter::from_fn;
use std::mem::take;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::translate::explain::{ExplainConfig, Explanation};
use attention_seq2seq::{Error, SearchConfig, Translator};
use axum::http::StatusCode;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;

use super::answer::Failure;
use super::metrics::Metrics;
use crate::machine::among_threads;

/// The outputs of each source, the best first.
type Outputs = Vec<Vec<ScoredHypothesis>>;

/// The queue to the model. The thread that translates ends once the queue is dropped and its jobs are done.
pub(super) struct Batcher {
    translator: Arc<Translator>,
    jobs: mpsc::UnboundedSender<Job>,
    /// The turn of a batch or an explanation, in the order of arrival.
    turn: Arc<Mutex<()>>,
    /// The free places.
    free: Arc<Semaphore>,
    /// The number of places.
    places: usize,
}

impl Batcher {
    /// Starts the thread that translates. At most `places` requests wait for the model or are being processed.
    pub(super) fn start(
        translator: Arc<Translator>,
        places: NonZeroUsize,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let (batcher, worker) = Self::new(translator, places.get(), metrics);
        let thread = thread::Builder::new().name("model".to_string());
        thread.spawn(|| worker.run())?;
        Ok(batcher)
    }

    fn new(translator: Arc<Translator>, places: usize, metrics: Arc<Metrics>) -> (Self, Worker) {
        let (jobs, arriving) = mpsc::unbounded_channel();
        let turn = Arc::default();
        let places = places.min(Semaphore::MAX_PERMITS);
        let worker = Worker {
            translator: Arc::clone(&translator),
            metrics,
            turn: Arc::clone(&turn),
            arriving,
            waiting: Vec::new(),
        };
        let batcher = Self {
            translator,
            jobs,
            turn,
            free: Arc::new(Semaphore::new(places)),
            places,
        };
        (batcher, worker)
    }

    /// The outputs of sources, which share batches with sources of other requests for the same search.
    pub(super) async fn translate(
        &self,
        sources: Vec<Vec<String>>,
        search: SearchConfig,
    ) -> Result<Outputs, Failure> {
        let (reply, outputs) = oneshot::channel();
        let job = Job {
            sources,
            search,
            reply,
            place: self.place()?,
        };
        // If the thread has ended, the job is returned as an error, and its reply closes with it.
        let _ = self.jobs.send(job);
        outputs.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// The explanation of a source.
    pub(super) async fn explain(
        &self,
        source: Vec<String>,
        config: ExplainConfig,
    ) -> Result<Explanation, Failure> {
        let place = self.place()?;
        let turn = self.turn.clone().lock_owned().await;
        let translator = self.translator.clone();
        let (reply, explanation) = oneshot::channel();
        spawn_blocking(move || {
            let should_stop = || reply.is_closed();
            let found = caught(|| translator.explain_tokens_until(&source, &config, should_stop));
            drop((place, turn));
            // The client may have gone.
            let _ = reply.send(found);
        });
        explanation.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// A place, if one is free.
    fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let place = self.free.clone().try_acquire_owned();
        place.map_err(|_| Failure::busy("too many requests are waiting"))
    }

    /// Whether the thread that translates is running.
    pub(super) fn is_running(&self) -> bool {
        !self.jobs.is_closed()
    }

    /// The number of requests that wait or are being processed.
    pub(super) fn requests(&self) -> usize {
        self.places - self.free.available_permits()
    }
}

fn stopped() -> Failure {
    Failure::busy("the model has stopped")
}

/// The sources of a request that is waiting.
struct Job {
    sources: Vec<Vec<String>>,
    search: SearchConfig,
    /// It closes once nobody waits for the outputs, because the client has gone or the time is over.
    reply: oneshot::Sender<Result<Outputs, Failure>>,
    /// The request's place, which is freed once the job is done.
    place: OwnedSemaphorePermit,
}

impl Job {
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Ends the job. Its place is freed before the request goes on, so that a client with an answer finds it free.
    fn end(self, outputs: Result<Outputs, Failure>) {
        drop(self.place);
        // The client may have gone.
        let _ = self.reply.send(outputs);
    }
}

/// The thread that translates.
struct Worker {
    translator: Arc<Translator>,
    metrics: Arc<Metrics>,
    turn: Arc<Mutex<()>>,
    arriving: mpsc::UnboundedReceiver<Job>,
    /// Jobs that have arrived, but requested another search than the previous batch.
    waiting: Vec<Job>,
}

impl Worker {
    fn run(mut self) {
        let turn = Arc::clone(&self.turn);
        while self.wait() {
            let _turn = turn.blocking_lock();
            let batch = self.batch(self.translator.batch_size());
            if !batch.is_empty() {
                self.translate(batch);
            }
        }
    }

    /// Waits for a job. Returns false once there will be no more.
    fn wait(&mut self) -> bool {
        if self.waiting.is_empty() {
            self.waiting.extend(self.arriving.blocking_recv());
        }
        !self.waiting.is_empty()
    }

    /// The first job, and those that request the same search: until they have `most` sources, or no other waits. Jobs
    /// that nobody waits for are dropped.
    fn batch(&mut self, most: usize) -> Vec<Job> {
        let arrived = from_fn(|| self.arriving.try_recv().ok());
        let mut waiting = take(&mut self.waiting).into_iter().chain(arrived);
        let Some(first) = waiting.next() else {
            return Vec::new();
        };
        let mut sources = first.sources.len();
        let (mut batch, others): (Vec<Job>, Vec<Job>) = waiting.partition(|job| {
            let joins = sources < most && job.search == first.search;
            sources += if joins { job.sources.len() } else { 0 };
            joins
        });
        batch.insert(0, first);
        batch.retain(Job::is_awaited);
        self.waiting = others;
        self.waiting.retain(Job::is_awaited);
        batch
    }

    fn translate(&self, mut batch: Vec<Job>) {
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
            // One job's request must not harm the others.
            Err(_) => batch.into_iter().for_each(|job| self.translate(vec![job])),
        }
    }

    /// The outputs of each source of a batch, as long as somebody waits for any of them.
    fn outputs(&self, batch: &[Job]) -> Result<Outputs, Failure> {
        let sources = batch.iter().flat_map(|job| &job.sources);
        let sources: Vec<&[String]> = sources.map(Vec::as_slice).collect();
        let search = &batch[0].search;
        let should_stop = || !batch.iter().any(Job::is_awaited);
        let translator = &self.translator;
        caught(|| translator.n_best_tokens_until(&sources, search, should_stop))
    }
}

/// The result of the model. A panic ends this work, but not the server, because nothing in a translator changes.
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
