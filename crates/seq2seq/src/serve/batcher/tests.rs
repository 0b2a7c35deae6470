use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use attention_seq2seq::device::compiled_in_devices;
use attention_seq2seq::{
    DataSource, Interrupter, RunConfig, RunDir, Seq2SeqConfig, Task, Training, Vocabs, open_device,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::*;

/// A small model, which has learned for an epoch.
fn translator(folder: &Path) -> Translator {
    let (task, train, valid) = (Task::Reverse, 8, 2);
    let data = DataSource::Task { task, train, valid };
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

/// The model with its thread, which does not run yet.
fn batcher(places: usize) -> (TempDir, Batcher, Worker) {
    let folder = tempfile::tempdir().unwrap();
    let translator = Arc::new(translator(folder.path()));
    let (batcher, worker) = Batcher::new(translator, places, Arc::default());
    (folder, batcher, worker)
}

type Receiver = oneshot::Receiver<Result<Outputs, Failure>>;

/// A job of `sources` sources that asks for a beam, and where its outputs arrive.
fn job(batcher: &Batcher, name: &str, sources: usize, beam: usize) -> (Job, Receiver) {
    let (reply, outputs) = oneshot::channel();
    let job = Job {
        sources: vec![name.chars().map(String::from).collect(); sources],
        search: SearchConfig::new().with_beam(Some(beam)),
        reply,
        place: batcher.place().unwrap(),
    };
    (job, outputs)
}

fn submit(batcher: &Batcher, name: &str, sources: usize, beam: usize) -> Receiver {
    let (job, outputs) = job(batcher, name, sources, beam);
    let _ = batcher.jobs.send(job);
    outputs
}

/// The first source of each job of the next batch, which has four sources or more if it can.
fn next(worker: &mut Worker) -> Vec<String> {
    assert!(worker.wait());
    let batch = worker.batch(4).into_iter();
    batch.map(|job| job.sources[0].concat()).collect()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Waits for a result for no time at all.
fn time_out<T>(result: impl Future<Output = T>) {
    let ended = runtime().block_on(async { timeout(Duration::ZERO, result).await });
    assert!(ended.is_err());
}

#[test]
fn jobs_that_ask_for_the_same_are_one_batch() {
    let (_folder, batcher, mut worker) = batcher(6);
    let asked = [
        ("a", 1, 2),
        ("b", 2, 3),
        ("c", 1, 2),
        ("d", 2, 2),
        ("e", 1, 2),
        ("f", 1, 3),
    ];
    let outputs = asked.map(|(name, sources, beam)| submit(&batcher, name, sources, beam));
    assert!(batcher.requests() == 6 && batcher.place().is_err());
    // Four sources are enough.
    assert_eq!(next(&mut worker), ["a", "c", "d"]);
    // Jobs that were passed over still have their places.
    assert_eq!(batcher.requests(), 3);
    assert_eq!(next(&mut worker), ["b", "f"]);
    drop(outputs);
    // Nobody waits for the last one.
    assert_eq!(next(&mut worker), [""; 0]);
    assert_eq!(batcher.requests(), 0);
    drop(batcher);
    assert!(!worker.wait());
}

#[test]
fn batches_and_explanations_take_turns() {
    let (_folder, batcher, worker) = batcher(4);
    runtime().block_on(async {
        let turn = batcher.turn.clone().lock_owned().await;
        let source = || ["a", "b", "c"].map(String::from).to_vec();
        let mut explanation = pin!(batcher.explain(source(), ExplainConfig::default()));
        let mut outputs = pin!(batcher.translate(vec![source(); 2], SearchConfig::new()));
        thread::spawn(|| worker.run());
        // Both wait for their turn, and have their places.
        let pause = Duration::from_millis(20);
        assert!(timeout(pause, &mut explanation).await.is_err());
        assert!(timeout(pause, &mut outputs).await.is_err());
        assert_eq!(batcher.requests(), 2);
        drop(turn);
        let (explanation, outputs) = tokio::join!(explanation, outputs);
        assert_eq!(explanation.unwrap().tokens, source());
        assert_eq!(outputs.unwrap().len(), 2);
        assert_eq!(batcher.requests(), 0);
    });
}

#[test]
fn work_under_way_ends_once_nobody_waits_for_it() {
    let (_folder, batcher, worker) = batcher(9);
    let (jobs, mut outputs): (Vec<_>, Vec<_>) = (0..2).map(|_| job(&batcher, "abc", 2, 1)).unzip();
    // One of two is enough.
    time_out(outputs.pop().unwrap());
    assert_eq!(worker.outputs(&jobs).unwrap().len(), 4);
    drop(outputs);
    let stopped = worker.outputs(&jobs);
    assert_eq!(stopped.unwrap_err(), Failure::from(Error::Stopped));
    drop(jobs);
    // An explanation gives its place and the turn back, whether it has begun or waits.
    let source = vec!["a".to_string(); 9];
    let runtime = runtime();
    runtime.block_on(async {
        let explanation = batcher.explain(source.clone(), ExplainConfig::default());
        let mut explanation = Box::pin(explanation);
        assert!(timeout(Duration::ZERO, &mut explanation).await.is_err());
        let waiting = batcher.explain(source, ExplainConfig::default());
        assert!(timeout(Duration::ZERO, waiting).await.is_err());
        assert_eq!(batcher.requests(), 1);
        drop(explanation);
        let _turn = batcher.turn.lock().await;
    });
    drop(runtime);
    assert_eq!(batcher.requests(), 0);
}

#[test]
fn jobs_that_nobody_waits_for_give_their_places_back() {
    let (_folder, batcher, mut worker) = batcher(3);
    time_out(submit(&batcher, "late", 1, 1));
    drop(submit(&batcher, "other", 1, 2));
    assert_eq!(next(&mut worker), [""; 0]);
    assert_eq!(batcher.requests(), 0);

    assert!(batcher.is_running());
    drop(worker);
    assert!(!batcher.is_running());
    let last = batcher.translate(vec![vec!["a".to_string()]], SearchConfig::new());
    assert_eq!(runtime().block_on(last).unwrap_err(), stopped());
    assert_eq!(batcher.requests(), 0);
}
