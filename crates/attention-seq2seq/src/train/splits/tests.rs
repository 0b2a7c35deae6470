use std::slice;

use attention_core::{DotProductAttention, DotProductAttentionConfig};
use attention_tests::parameters;
use burn::module::Module;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;

use super::*;
use crate::device::test_device;
use crate::error::Error;
use crate::examples::Example;
use crate::model::{Seq2Seq, Seq2SeqConfig};
use crate::run::RunDir;
use crate::train::order::optimizer_bytes;
use crate::train::{Training, TrainingEnd};

type Model = Seq2Seq<DotProductAttention>;

/// A token whose embedding is NaN.
const POISON: u32 = 6;

/// The same model each time. Not by the device's seed: other tests draw from it, too, at the same time.
fn model() -> Model {
    let device = test_device().autodiff();
    let config = Seq2SeqConfig::new(8, 8)
        .with_embedding_size(3)
        .with_hidden_size(4);
    let model = config.init(DotProductAttentionConfig::new().init(), &device);
    let mut random = StdRng::seed_from_u64(3);
    parameters::changed(model, |path, mut value| {
        value.data.fill_with(|| random.random_range(-0.5..0.5));
        if path == "encoder.embedding.weight" {
            let row = POISON as usize * 3;
            value.data[row..row + 3].fill(f64::NAN);
        }
        value
    })
}

/// Pairs of two tokens, the first of each source among these.
fn examples(first: &[u32]) -> Examples {
    let pairs = first.iter().map(|&first| Example {
        source: vec![first, 5],
        target: vec![5, 4],
    });
    pairs.collect::<Vec<_>>().into()
}

fn config() -> TrainConfig {
    TrainConfig {
        epochs: 4,
        batch_size: 1,
        patience: 9,
        ..TrainConfig::default()
    }
}

/// Splits with so many steps until one is waited for.
fn splits(first: &[u32], window: usize) -> Splits {
    let device = test_device().autodiff();
    Splits {
        window,
        ..Splits::new(examples(first), examples(&[4]), &config(), device)
    }
}

/// The state after an epoch, and the figures.
fn epoch(splits: &Splits, epoch: usize, state: State<Model>) -> Result<(State<Model>, Figures)> {
    let mut schedule = Schedule::new(&config(), 100, 0, None);
    let (config, interrupter) = (config(), Interrupter::new());
    let ended = splits.train(epoch, state, &config, &mut schedule, &interrupter, &mut ());
    Ok(ended?.unwrap())
}

/// The bits of parameters and moments.
fn bits(state: &State<Model>) -> [Vec<u8>; 2] {
    let model = state.trainee.clone().into_record().into_bytes().unwrap();
    let optimizer = optimizer_bytes(state.optimizer()).unwrap();
    [model.to_vec(), optimizer.to_vec()]
}

#[test]
fn a_step_that_is_refused_changes_no_bit() {
    let state = State::new(model(), &config());
    let (state, _) = epoch(&splits(&[4, 5, 7], 1), 1, state).unwrap();
    let before = bits(&state);
    for window in [1, 2, 8] {
        let poisoned = splits(&[POISON; 5], window);
        let (after, figures) = epoch(&poisoned, 1, state.clone()).unwrap();
        assert!(bits(&after) == before, "in windows of {window}");
        assert!(figures.loss.is_nan(), "nothing was learned from");
        // What follows is as if it had not been there.
        let clean = splits(&[7, 4], 1);
        let [with, without] =
            [after, state.clone()].map(|it| bits(&epoch(&clean, 2, it).unwrap().0));
        assert!(with == without && with != before);
    }
}

#[test]
fn steps_beside_one_that_is_refused_are_made_at_their_rates() {
    const FIRST: [u32; 7] = [4, POISON, 5, 7, POISON, 7, 4];
    let start = || State::new(model(), &config());
    let (one_by_one, figures) = epoch(&splits(&FIRST, 1), 1, start()).unwrap();
    assert!(figures.loss.is_finite() && figures.exact_match.is_finite());
    for window in [2, 3, 8] {
        let (unread, same) = epoch(&splits(&FIRST, window), 1, start()).unwrap();
        assert!(bits(&unread) == bits(&one_by_one), "in windows of {window}");
        assert_eq!(same, figures);
    }
    // By hand.
    let splits = splits(&FIRST, 1);
    let mut random = config().random(1);
    let _: u64 = random.random();
    let mut schedule = Schedule::new(&config(), 100, 0, None);
    let mut state = start();
    let mut refused = 0;
    for batch in splits.train.deal(&mut random) {
        let rate = schedule.step();
        let examples = splits.train.examples(&batch);
        if examples[0].source[0] == POISON {
            refused += 1;
            continue;
        }
        let batch = Batch::new(&examples, &splits.device);
        let gradients = state.trainee.train_step(batch).gradients;
        state = state.step(schedule.begun(), rate, gradients);
    }
    assert_eq!(refused, 2);
    assert!(bits(&state) == bits(&one_by_one));
}

#[test]
fn a_window_without_a_fault_ends_where_single_steps_do() {
    const FIRST: [u32; 5] = [4, 5, 7, 4, 7];
    let ends = [1, 2, 8].map(|window| {
        let state = State::new(model(), &config());
        let (state, figures) = epoch(&splits(&FIRST, window), 1, state).unwrap();
        (bits(&state), figures)
    });
    assert!(ends[0] == ends[1] && ends[0] == ends[2]);
}

#[test]
fn finite_gradients_whose_squares_are_not_are_clipped_to_a_step() {
    let model = parameters::changed(model(), |path, mut value| {
        for element in &mut value.data {
            if path == "decoder.output.weight" {
                // Logits of this size hand gradients of it down.
                *element *= 3e20;
            } else if element.is_nan() {
                *element = 0.0;
            }
        }
        value
    });
    let before = parameters::values(&model);
    let start = State::new(model, &config());
    let one_by_one = splits(&[4, 5], 1);
    let batch = Batch::new(&one_by_one.train.get(0), &one_by_one.device);
    let norm = start.trainee.train_step(batch).norm.unwrap();
    let norm = norm.read().unwrap();
    assert!((1e20..1e21).contains(&norm), "{norm:e}");

    let (after, figures) = epoch(&one_by_one, 1, start.clone()).unwrap();
    assert!(figures.loss.is_finite(), "every step was refused");
    let mut largest = 0.0_f64;
    for (path, after) in parameters::values(&after.trainee.model) {
        for (after, before) in after.data.iter().zip(&before[&path].data) {
            let change = (after - before).abs();
            // Of two steps of Adam.
            assert!(change < 0.01, "{path}: {before} to {after}");
            largest = largest.max(change);
        }
    }
    assert!(largest > 0.001, "{largest}");
    let (unread, same) = epoch(&splits(&[4, 5], 8), 1, start).unwrap();
    assert!(bits(&unread) == bits(&after) && same == figures);
}

#[test]
fn the_reason_names_the_first_parameter_or_the_loss() {
    let state = State::new(model(), &config());
    let splits = splits(&[POISON, 4], 1);
    let step = |batch| {
        let batch = Batch::new(&splits.train.get(batch), &splits.device);
        state.trainee.train_step(batch)
    };
    let fault = |output: &TrainOutput| output.fault(&state.trainee).unwrap();
    assert_eq!(
        fault(&step(0)).unwrap(),
        "the gradient of encoder.embedding.weight is not finite"
    );
    let mut good = step(1);
    assert_eq!(fault(&good), None);
    let is_finite =
        |output: &TrainOutput| TrainOutput::are_finite(slice::from_ref(output)).unwrap();
    assert!(is_finite(&good) && !is_finite(&step(0)));
    // Behind a maximum or a mask, a NaN leaves no trace in the gradients.
    for (loss, reason) in [
        (f32::NAN, "its loss is NaN"),
        (f32::INFINITY, "its loss is inf"),
    ] {
        good.output.loss = good.output.loss.full_like(loss);
        assert_eq!(fault(&good).unwrap(), reason);
        assert!(!is_finite(&good));
    }
}

/// A training in a folder of its own.
fn training(run: &RunDir, first: &[u32], resume_from: Option<usize>) -> Training<Model> {
    observed(run, first, resume_from, ())
}

fn observed<O: TrainObserver>(
    run: &RunDir,
    first: &[u32],
    resume_from: Option<usize>,
    observer: O,
) -> Training<Model, O> {
    Training {
        model: model(),
        train: examples(first),
        valid: examples(&[4]),
        config: config(),
        run: run.clone(),
        resume_from,
        interrupter: Interrupter::new(),
        observer,
    }
}

/// A training that ends after an epoch, as if it had been stopped there.
fn stopped_after(run: &RunDir, first: &[u32], resume_from: Option<usize>, epochs: usize) {
    let mut training = training(run, first, resume_from);
    training.config.epochs = epochs;
    assert_eq!(training.launch().unwrap(), TrainingEnd::LastEpoch);
}

fn folder() -> (TempDir, RunDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    (folder, run)
}

/// The events of a training of some epochs, each as a line.
fn events(run: &RunDir, first: &[u32], resume_from: Option<usize>, epochs: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut newest = None;
    let observer = |event: &TrainEvent| {
        lines.push(match event {
            TrainEvent::Started { trained, epochs } => format!("{trained} of {epochs} trained"),
            TrainEvent::BatchDone {
                epoch,
                split,
                done,
                batches,
                figures,
            } => {
                newest = Some(figures.rounded());
                format!("epoch {epoch}: {split} {done} of {batches}")
            }
            TrainEvent::StepRefused {
                epoch,
                step,
                steps,
                reason,
            } => format!("epoch {epoch}: refused {step} of {steps}: {reason}"),
            TrainEvent::EpochEnded(epoch) => {
                assert_eq!(run.last_checkpoint().unwrap(), Some(epoch.epoch));
                assert_eq!(newest, Some(epoch.valid));
                format!("epoch {}: ended", epoch.epoch)
            }
        });
    };
    let mut training = observed(run, first, resume_from, observer);
    training.config.epochs = epochs;
    assert_eq!(training.launch().unwrap(), TrainingEnd::LastEpoch);
    lines
}

#[test]
fn the_observer_is_told_of_batches_refusals_and_epochs_in_their_order() {
    let (_folder, run) = folder();
    assert_eq!(
        events(&run, &[4, 5], None, 2),
        [
            "0 of 2 trained",
            "epoch 1: train 1 of 2",
            "epoch 1: train 2 of 2",
            "epoch 1: valid 1 of 1",
            "epoch 1: ended",
            "epoch 2: train 1 of 2",
            "epoch 2: train 2 of 2",
            "epoch 2: valid 1 of 1",
            "epoch 2: ended",
        ]
    );
    assert_eq!(
        events(&run, &[POISON; 2], Some(2), 3),
        [
            "2 of 3 trained",
            "epoch 3: refused 1 of 2: the gradient of encoder.embedding.weight is not finite",
            "epoch 3: refused 2 of 2: the gradient of encoder.embedding.weight is not finite",
            "epoch 3: valid 1 of 1",
            "epoch 3: ended",
        ]
    );
}

#[test]
fn ten_in_a_row_end_the_training_across_epochs_and_interruptions() {
    let (_folder, run) = folder();
    let check = |resume_from| {
        let error = training(&run, &[POISON; 4], resume_from)
            .launch()
            .unwrap_err();
        let Error::Diverged {
            epoch,
            step,
            steps,
            reason,
            checkpoint,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((epoch, step, steps), (3, 2, 10));
        assert_eq!(checkpoint, None);
        assert_eq!(
            reason,
            "the gradient of encoder.embedding.weight is not finite"
        );
        assert!(run.checkpoints().unwrap().is_empty());
    };
    // Two steps into the third epoch, each time.
    check(None);
    for epochs in [1, 2] {
        stopped_after(&run, &[POISON; 4], None, epochs);
        check(Some(epochs));
    }
    // One that is made ends the row: here, in whichever order, before the ninth.
    let (_folder, run) = folder();
    let end = training(&run, &[POISON, POISON, 4, POISON, POISON], None).launch();
    assert_eq!(end.unwrap(), TrainingEnd::LastEpoch);
}

#[test]
fn a_training_that_refused_steps_goes_on_as_if_it_had_not_been_stopped() {
    let (folder, run) = folder();
    let first = [4, POISON, 5, POISON, 7];
    let files = || {
        let name = |part: &str| folder.path().join(format!("checkpoint/{part}-4.bpk"));
        [name("model"), name("optim"), folder.path().join("run.json")]
            .map(|file| std::fs::read(file).unwrap())
    };
    training(&run, &first, None).launch().unwrap();
    let whole = files();
    training(&run, &first, Some(3)).launch().unwrap();
    assert!(files() == whole);
}

#[test]
fn a_divergence_leaves_the_last_good_checkpoint_however_often_training_goes_on() {
    let (folder, run) = folder();
    let manifest = || std::fs::read(folder.path().join("run.json")).unwrap();
    let diverge = |resume_from| {
        let error = training(&run, &[POISON; 4], resume_from).launch();
        let Err(Error::Diverged { checkpoint, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(checkpoint, Some(1));
        assert_eq!(run.checkpoints().unwrap(), [1]);
        assert_eq!(run.last_checkpoint().unwrap(), Some(1));
        assert_eq!(run.model_file().unwrap().unwrap().1, 1);
        assert_eq!(run.history().unwrap().len(), 1);
        manifest()
    };
    // A good epoch, two of which every step is refused, and half of one.
    stopped_after(&run, &[4, 5, 7, 4], None, 1);
    let whole = diverge(Some(1));
    for epochs in [2, 3] {
        stopped_after(&run, &[POISON; 4], Some(1), epochs);
        assert_eq!(run.last_checkpoint().unwrap(), Some(epochs));
        assert!(diverge(Some(epochs)) == whole, "after epoch {epochs}");
    }
}
