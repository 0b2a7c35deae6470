use std::path::Path;
use std::time::Duration;

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
) -> (Awaited<C, T>, Receiver<Result<T, Failure>>) {
    let (reply, result) = channel();
    let job = Awaited {
        sources,
        config,
        reply,
        place: batcher.place().unwrap(),
    };
    (job, result)
}

type Outputs = Receiver<Result<Vec<Vec<ScoredHypothesis>>, Failure>>;

/// Waits for a result for no time at all.
fn time_out<T>(result: Receiver<T>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(async {
        let timed_out = tokio::time::timeout(Duration::ZERO, result).await;
        assert!(timed_out.is_err());
    });
}

/// Submits a job of `sources` sources that asks for a beam. Returns where its outputs arrive.
fn submit(batcher: &Batcher, name: &str, sources: usize, beam: usize) -> Outputs {
    let sources = vec![vec![name.to_string()]; sources];
    let search = SearchConfig::new().with_beam(Some(beam));
    let (job, outputs) = awaited(batcher, sources, search);
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
        .map(|(name, sources, beam)| submit(&batcher, name, sources, beam))
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
    let first = submit(&batcher, "a", 1, 1);
    let explain = |name: &str| {
        let sources = vec![vec![name.to_string()]];
        let (job, explanation) = awaited(&batcher, sources, ExplainConfig::default());
        batcher.submit(Job::Explain(job));
        explanation
    };
    let explanations = ["b", "c"].map(explain);
    let last = submit(&batcher, "d", 1, 1);
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
    let explain = || {
        let config = ExplainConfig::default();
        awaited::<_, Explanation>(&batcher, vec![source()], config)
    };
    let (job, explanation) = explain();
    assert_eq!(worker.explanation(&job).unwrap().tokens, source());
    drop(explanation);
    let (late, explanation) = explain();
    time_out(explanation);
    for job in [job, late] {
        let stopped = worker.explanation(&job);
        assert_eq!(stopped.unwrap_err(), Failure::from(Error::Stopped));
    }

    let translate = || awaited(&batcher, vec![source(); 2], SearchConfig::new());
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
    time_out(submit(&batcher, "late", 1, 1));
    drop(submit(&batcher, "other", 1, 2));
    assert!(queue.next(4).unwrap().is_empty());
    assert_eq!(batcher.jobs(), 0);

    assert!(batcher.is_running());
    drop(queue);
    assert!(!batcher.is_running());
    let mut outputs = submit(&batcher, "last", 1, 1);
    assert!(outputs.try_recv().is_err());
    assert_eq!(batcher.jobs(), 0);
}
