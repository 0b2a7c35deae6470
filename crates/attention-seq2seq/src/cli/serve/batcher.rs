//! The thread of the model, which translates what waits as one batch.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use attention_seq2seq::{Error, ScoredHypothesis, SearchConfig, Translator};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::metrics::Metrics;
use crate::cli::machine::among_threads;

/// The outputs of each source of a job, the best first; or why there are none.
pub(super) type Translated = Result<Vec<Vec<ScoredHypothesis>>, Failed>;

/// The reason why a job has no outputs.
#[derive(Debug)]
pub(super) enum Failed {
    /// An error of the search: settings that the model cannot have, or probabilities that are none.
    Error(Error),
    /// The model panicked.
    Panicked,
}

/// Sources that are translated for one request.
pub(super) struct Job {
    pub(super) sources: Vec<Vec<String>>,
    /// The search: jobs that ask for the same are translated together.
    pub(super) search: SearchConfig,
    /// Nobody waits for the outputs after that.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Translated>,
    /// The job's place among those that may wait.
    pub(super) _place: Place,
}

/// One of the places of jobs, which is free again once the job is done.
pub(super) struct Place(
    #[expect(dead_code, reason = "held until the job is done")] OwnedSemaphorePermit,
);

impl Job {
    /// Whether somebody waits for the outputs.
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed() && Instant::now() < self.deadline
    }
}

/// The way to the model. The thread ends once all copies are gone and their jobs are done.
#[derive(Clone)]
pub(super) struct Batcher {
    jobs: mpsc::UnboundedSender<Job>,
    /// The places that are free.
    free: Arc<Semaphore>,
    /// The number of places.
    places: usize,
}

impl Batcher {
    /// Starts the thread of the model, which may have so many jobs at a time, waiting or under way.
    ///
    /// # Errors
    /// If the system starts no thread.
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
        thread::Builder::new()
            .name("model".to_string())
            .spawn(|| worker.run())?;
        Ok(batcher)
    }

    /// The way, and where the jobs arrive.
    fn new(places: usize) -> (Self, Queue) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let places = places.min(Semaphore::MAX_PERMITS);
        let batcher = Self {
            jobs: sender,
            free: Arc::new(Semaphore::new(places)),
            places,
        };
        let queue = Queue {
            jobs: receiver,
            taken: VecDeque::new(),
        };
        (batcher, queue)
    }

    /// A place for a job, if one is free.
    pub(super) fn place(&self) -> Option<Place> {
        self.free.clone().try_acquire_owned().ok().map(Place)
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
        let most = self.translator.batch_size();
        while let Some(batch) = self.jobs.next(most) {
            if !batch.is_empty() {
                self.translate(batch);
            }
        }
    }

    fn translate(&self, batch: Vec<Job>) {
        let sources = batch.iter().flat_map(|job| &job.sources);
        let sources: Vec<&[String]> = sources.map(Vec::as_slice).collect();
        let count = sources.len();
        let translate = || self.translator.n_best_tokens(&sources, &batch[0].search);
        // A panic is the end of a batch, and not of the server: nothing of a translator changes.
        let outputs = catch_unwind(AssertUnwindSafe(|| among_threads(translate)));
        let outputs = match outputs {
            Ok(outputs) => outputs.map_err(Failed::Error),
            Err(panic) => {
                #[cfg(feature = "remote")]
                crate::cli::watch::look_at_panic(&*panic);
                drop(panic);
                Err(Failed::Panicked)
            }
        };
        self.metrics.batch_translated(count);
        match outputs {
            Ok(outputs) => {
                let mut outputs = outputs.into_iter();
                for job in batch {
                    let of_job = outputs.by_ref().take(job.sources.len()).collect();
                    // Who asked may have gone.
                    let _ = job.reply.send(Ok(of_job));
                }
            }
            // Others are not to suffer from what one of them asked for.
            Err(_) if batch.len() > 1 => {
                batch.into_iter().for_each(|job| self.translate(vec![job]))
            }
            Err(error) => {
                if let Some(job) = batch.into_iter().next() {
                    let _ = job.reply.send(Err(error));
                }
            }
        }
    }
}

/// The jobs that wait.
struct Queue {
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Those that were taken from there, and ask for something else than the batch before.
    taken: VecDeque<Job>,
}

impl Queue {
    /// Waits for a job, and takes those with it that ask for the same: until they have `most` sources, or no other
    /// waits. Jobs that nobody waits for are left out. None once there will be no more.
    fn next(&mut self, most: usize) -> Option<Vec<Job>> {
        let first = self
            .taken
            .pop_front()
            .or_else(|| self.jobs.blocking_recv())?;
        let mut sources = first.sources.len();
        let mut batch = vec![first];
        let mut others = VecDeque::new();
        while sources < most {
            let waiting = self.taken.pop_front().or_else(|| self.jobs.try_recv().ok());
            match waiting {
                Some(job) if job.search == batch[0].search => {
                    sources += job.sources.len();
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A job of so many sources, that asks for a beam, and where its outputs arrive.
    fn job(
        batcher: &Batcher,
        name: &str,
        sources: usize,
        beam: usize,
    ) -> (Job, oneshot::Receiver<Translated>) {
        let (reply, outputs) = oneshot::channel();
        let job = Job {
            sources: vec![vec![name.to_string()]; sources],
            search: SearchConfig::new().with_beam(Some(beam)),
            deadline: Instant::now() + Duration::from_secs(600),
            reply,
            _place: batcher.place().unwrap(),
        };
        (job, outputs)
    }

    /// The first source of each job.
    fn names(batch: Vec<Job>) -> Vec<String> {
        let names = batch.into_iter().map(|job| job.sources[0][0].clone());
        names.collect()
    }

    #[test]
    fn jobs_that_ask_for_the_same_are_one_batch() {
        let (batcher, mut queue) = Batcher::new(6);
        let asked = [
            ("a", 1, 2),
            ("b", 2, 3),
            ("c", 1, 2),
            ("d", 2, 2),
            ("e", 1, 2),
            ("f", 1, 3),
        ];
        let outputs: Vec<_> = asked
            .into_iter()
            .map(|(name, sources, beam)| {
                let (job, outputs) = job(&batcher, name, sources, beam);
                batcher.submit(job);
                outputs
            })
            .collect();
        assert!(batcher.jobs() == 6 && batcher.place().is_none());
        // Four sources are enough.
        assert_eq!(names(queue.next(4).unwrap()), ["a", "c", "d"]);
        // Those that were passed over have their places still.
        assert_eq!(batcher.jobs(), 3);
        assert_eq!(names(queue.next(4).unwrap()), ["b", "f"]);
        drop(outputs);
        // Nobody waits for the last one.
        assert_eq!(names(queue.next(4).unwrap()), [""; 0]);
        assert_eq!(batcher.jobs(), 0);
        drop(batcher);
        assert!(queue.next(4).is_none());
    }

    #[test]
    fn jobs_that_nobody_waits_for_give_their_places_back() {
        let (batcher, mut queue) = Batcher::new(3);
        let (mut late, _outputs) = job(&batcher, "late", 1, 1);
        late.deadline = Instant::now();
        batcher.submit(late);
        let (other, given_up) = job(&batcher, "other", 1, 2);
        batcher.submit(other);
        drop(given_up);
        assert!(queue.next(4).unwrap().is_empty());
        assert_eq!(batcher.jobs(), 0);

        let (last, mut outputs) = job(&batcher, "last", 1, 1);
        assert!(batcher.is_running());
        drop(queue);
        assert!(!batcher.is_running());
        batcher.submit(last);
        assert!(outputs.try_recv().is_err());
        assert_eq!(batcher.jobs(), 0);
    }
}
