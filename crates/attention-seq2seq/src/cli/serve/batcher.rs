//! The thread of the model, which translates what waits as one batch.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use attention_seq2seq::{Result, ScoredHypothesis, SearchConfig, Translator};
use tokio::sync::{mpsc, oneshot};

use super::metrics::Metrics;
use super::request::Search;
use crate::cli::among_threads;

/// The outputs of each source of a job.
pub(super) type Outputs = Result<Vec<Vec<ScoredHypothesis>>>;

/// Sources that are translated for one request.
pub(super) struct Job {
    pub(super) sources: Vec<Vec<String>>,
    /// What was asked for: jobs that ask for the same are translated together.
    pub(super) search: Search,
    pub(super) config: SearchConfig,
    /// Nobody waits for the outputs after that.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Outputs>,
}

impl Job {
    /// Whether somebody waits for the outputs.
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed() && Instant::now() < self.deadline
    }
}

/// The reason why a job was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// As many jobs as may are waiting.
    Full,
    /// The model's thread has ended.
    Stopped,
}

/// The way to the model. The thread ends once all copies are gone and their jobs are done.
#[derive(Clone)]
pub(super) struct Batcher {
    jobs: mpsc::Sender<Job>,
}

impl Batcher {
    /// Starts the thread of the model, for which so many jobs may wait.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start(
        translator: Arc<Translator>,
        waiting: NonZeroUsize,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(waiting.get());
        let worker = Worker {
            translator,
            metrics,
            jobs: Queue {
                jobs: receiver,
                taken: VecDeque::new(),
            },
        };
        thread::Builder::new()
            .name("model".to_string())
            .spawn(|| worker.run())?;
        Ok(Self { jobs: sender })
    }

    /// Hands a job over.
    ///
    /// # Errors
    /// If it is not taken.
    pub(super) fn submit(&self, job: Job) -> std::result::Result<(), Refused> {
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Full,
            mpsc::error::TrySendError::Closed(_) => Refused::Stopped,
        })
    }

    /// The number of jobs that wait.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
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
        let outputs = among_threads(|| self.translator.n_best_tokens(&sources, &batch[0].config));
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
    jobs: mpsc::Receiver<Job>,
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
    fn job(name: &str, sources: usize, beam: usize) -> (Job, oneshot::Receiver<Outputs>) {
        let (reply, outputs) = oneshot::channel();
        let search: Search = serde_json::from_value(serde_json::json!({ "beam": beam })).unwrap();
        let job = Job {
            sources: vec![vec![name.to_string()]; sources],
            config: search.config(9).unwrap(),
            search,
            deadline: Instant::now() + Duration::from_secs(600),
            reply,
        };
        (job, outputs)
    }

    /// The first source of each job.
    fn names(batch: &[Job]) -> Vec<&str> {
        let names = batch.iter().map(|job| job.sources[0][0].as_str());
        names.collect()
    }

    #[test]
    fn jobs_that_ask_for_the_same_are_one_batch() {
        let (sender, jobs) = mpsc::channel(16);
        let batcher = Batcher { jobs: sender };
        let mut queue = Queue {
            jobs,
            taken: VecDeque::new(),
        };
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
                let (job, outputs) = job(name, sources, beam);
                batcher.submit(job).unwrap();
                outputs
            })
            .collect();
        assert_eq!(batcher.waiting(), 6);
        // Four sources are enough.
        assert_eq!(names(&queue.next(4).unwrap()), ["a", "c", "d"]);
        assert_eq!(names(&queue.next(4).unwrap()), ["b", "f"]);
        drop(outputs);
        // Nobody waits for the last one.
        assert_eq!(names(&queue.next(4).unwrap()), [""; 0]);
        drop(batcher);
        assert!(queue.next(4).is_none());
    }

    #[test]
    fn a_job_too_late_is_left_out_and_one_too_many_refused() {
        let (sender, jobs) = mpsc::channel(1);
        let batcher = Batcher { jobs: sender };
        let mut queue = Queue {
            jobs,
            taken: VecDeque::new(),
        };
        let (mut late, _outputs) = job("late", 1, 1);
        late.deadline = Instant::now();
        batcher.submit(late).unwrap();
        let (second, _outputs) = job("second", 1, 1);
        assert!(matches!(batcher.submit(second), Err(Refused::Full)));
        assert!(queue.next(4).unwrap().is_empty());
        drop(queue);
        let (third, _outputs) = job("third", 1, 1);
        assert!(matches!(batcher.submit(third), Err(Refused::Stopped)));
    }
}
