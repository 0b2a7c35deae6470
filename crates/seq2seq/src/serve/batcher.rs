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
        (batcher, Queue::new(receiver))
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
        caught(|| {
            self.translator
                .n_best_tokens_until(&sources, search, should_stop)
        })
    }

    /// The explanation that a job asks for, as long as somebody waits for it.
    fn explanation(&self, job: &Explaining) -> Result<Explanation, Failure> {
        let should_stop = || !job.is_awaited();
        caught(|| {
            self.translator
                .explain_tokens_until(&job.sources[0], &job.config, should_stop)
        })
    }
}

/// The result of the model. A panic is the end of this work, and not of the server: nothing of a translator changes.
fn caught<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(|| among_threads(work))) {
        Ok(result) => result.map_err(Failure::from),
        Err(_) => {
            let line = "the model panicked; the server's standard error has more";
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, line))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use attention_seq2seq::device::compiled_in_devices;
    use attention_seq2seq::translate::explain::ExplainConfig;
    use attention_seq2seq::{
        DataSource, Interrupter, RunConfig, RunDir, SearchConfig, Seq2SeqConfig, Task, Training,
        Vocabs, open_device,
    };
    use tokio::sync::oneshot::{Receiver, channel};

    use super::*;

    fn awaited<C, T>(
        batcher: &Batcher,
        sources: Vec<Vec<String>>,
        config: C,
        time: Duration,
    ) -> (Awaited<C, T>, Receiver<Result<T, Failure>>) {
        let (reply, result) = channel();
        let job = Awaited {
            sources,
            config,
            deadline: Instant::now() + time,
            reply,
            place: batcher.place().unwrap(),
        };
        (job, result)
    }

    type Outputs = Receiver<Result<Vec<Vec<ScoredHypothesis>>, Failure>>;

    const LONG: Duration = Duration::from_secs(600);

    /// Submits a job of `sources` sources that asks for a beam. Returns where its outputs arrive.
    fn submit(
        batcher: &Batcher,
        name: &str,
        sources: usize,
        beam: usize,
        time: Duration,
    ) -> Outputs {
        let sources = vec![vec![name.to_string()]; sources];
        let search = SearchConfig::new().with_beam(Some(beam));
        let (job, outputs) = awaited(batcher, sources, search, time);
        batcher.submit(Job::Translate(job));
        outputs
    }

    /// The first source of each job.
    fn names(batch: Vec<Job>) -> Vec<String> {
        let names = batch.into_iter().map(|job| job.sources()[0][0].clone());
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
            .map(|(name, sources, beam)| submit(&batcher, name, sources, beam, LONG))
            .collect();
        assert!(batcher.jobs() == 6 && batcher.place().is_none());
        // Four sources are enough.
        assert_eq!(names(queue.next(4).unwrap()), ["a", "c", "d"]);
        // Jobs that were passed over still have their places.
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
    fn an_explanation_is_a_batch_of_its_own() {
        let (batcher, mut queue) = Batcher::new(4);
        let first = submit(&batcher, "a", 1, 1, LONG);
        let explain = |name: &str| {
            let sources = vec![vec![name.to_string()]];
            let (job, explanation) = awaited(&batcher, sources, ExplainConfig::default(), LONG);
            batcher.submit(Job::Explain(job));
            explanation
        };
        let explanations = ["b", "c"].map(explain);
        let last = submit(&batcher, "d", 1, 1, LONG);
        let batches: Vec<_> = (0..3).map(|_| names(queue.next(4).unwrap())).collect();
        assert_eq!(batches, [vec!["a", "d"], vec!["b"], vec!["c"]]);
        drop((first, explanations, last));
    }

    /// A small model, which has learned for an epoch.
    fn translator(folder: &Path) -> Translator {
        let data = DataSource::Task {
            task: Task::Reverse,
            train: 8,
            valid: 2,
        };
        let pairs = data.pairs(1).unwrap();
        let vocabs = Vocabs::build(&pairs.train);
        let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len())
            .with_embedding_size(4)
            .with_hidden_size(4);
        let mut config = RunConfig::new(model, data, &pairs.train);
        config.train.epochs = 1;
        let run = RunDir::new(folder);
        run.create(&config, &vocabs).unwrap();
        let device = open_device(compiled_in_devices()[0]).unwrap().autodiff();
        let training = Training {
            model: config.init_model(&device),
            train: vocabs.encode(&pairs.train).into(),
            valid: vocabs.encode(&pairs.valid).into(),
            config: config.train,
            run,
            resume_from: None,
            interrupter: Interrupter::new(),
            observer: (),
        };
        training.launch().unwrap();
        Translator::open(folder).unwrap()
    }

    #[test]
    fn work_under_way_ends_once_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (batcher, jobs) = Batcher::new(9);
        let worker = Worker {
            translator: Arc::new(translator(folder.path())),
            metrics: Arc::default(),
            jobs,
        };
        let source = || ["a", "b", "c"].map(String::from).to_vec();
        let explain = |time: Duration| {
            let config = ExplainConfig::default();
            awaited::<_, Explanation>(&batcher, vec![source()], config, time)
        };
        let (job, explanation) = explain(LONG);
        assert_eq!(worker.explanation(&job).unwrap().tokens, source());
        drop(explanation);
        let (late, _explanation) = explain(Duration::ZERO);
        for job in [job, late] {
            let stopped = worker.explanation(&job);
            assert_eq!(stopped.unwrap_err(), Failure::from(Error::Stopped));
        }

        let translate = || awaited(&batcher, vec![source(); 2], SearchConfig::new(), LONG);
        let (batch, mut outputs): (Vec<Translation>, Vec<Outputs>) =
            (0..2).map(|_| translate()).unzip();
        // One of two is enough.
        drop(outputs.pop());
        assert_eq!(worker.outputs(&batch).unwrap().len(), 4);
        drop(outputs);
        let stopped = worker.outputs(&batch);
        assert_eq!(stopped.unwrap_err(), Failure::from(Error::Stopped));
    }

    #[test]
    fn jobs_that_nobody_waits_for_give_their_places_back() {
        let (batcher, mut queue) = Batcher::new(3);
        let _late = submit(&batcher, "late", 1, 1, Duration::ZERO);
        drop(submit(&batcher, "other", 1, 2, LONG));
        assert!(queue.next(4).unwrap().is_empty());
        assert_eq!(batcher.jobs(), 0);

        assert!(batcher.is_running());
        drop(queue);
        assert!(!batcher.is_running());
        let mut outputs = submit(&batcher, "last", 1, 1, LONG);
        assert!(outputs.try_recv().is_err());
        assert_eq!(batcher.jobs(), 0);
    }
}
