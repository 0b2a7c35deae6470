use std::slice;

use attention_core::DotProductAttention;
use attention_tests::parameters;
use burn::module::Module;
use rand::RngExt;

use super::*;
use crate::data::batch::Batch;
use crate::data::examples::example;
use crate::device::test_device;
use crate::model::Seq2Seq;
use crate::run::Figures;
use crate::tests::{self, folder};
use crate::train::TrainOutput;
use crate::train::order::optimizer_bytes;

type Model = Seq2Seq<DotProductAttention>;

/// A token whose embedding is NaN.
const POISON: u32 = 6;

/// The same model each time.
fn model() -> Model {
    parameters::changed(tests::model(), |path, mut value| {
        if path == "encoder.embedding.weight" {
            let row = POISON as usize * 3;
            value.data[row..row + 3].fill(f64::NAN);
        }
        value
    })
}

/// Pairs of two tokens, the first of each source among these.
fn examples(first: &[u32]) -> Examples {
    let pairs = first.iter().map(|&first| example(&[first, 5], &[5, 4]));
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

/// Epochs of these examples, where every `window` steps one is waited for.
fn training_of(first: &[u32], window: usize) -> Loop<'static, ()> {
    let config = config();
    Loop {
        communicator: &(),
        train: Batches::new(examples(first), config.batch_size),
        valid: Batches::new(examples(&[4]), config.batch_size),
        device: test_device().autodiff(),
        window,
        most_output: 5,
        schedule: Schedule::new(&config, 100, 0, None),
        config,
        interrupter: Interrupter::new(),
        observer: Some(()),
    }
}

/// The state after an epoch, and the figures.
fn epoch(first: &[u32], window: usize, at: usize, state: State<Model>) -> (State<Model>, Figures) {
    training_of(first, window).train(at, state).unwrap()
}

/// The bits of parameters and moments.
fn bits(state: &State<Model>) -> [Vec<u8>; 2] {
    let model = state.trainee.clone().into_record().into_bytes().unwrap();
    let optimizer = optimizer_bytes(&state.optimizer).unwrap();
    [model.to_vec(), optimizer.to_vec()]
}

#[test]
fn a_step_that_is_refused_changes_no_bit() {
    let state = State::new(model(), &config());
    let (state, _) = epoch(&[4, 5, 7], 1, 1, state);
    let before = bits(&state);
    for window in [1, 2, 8] {
        let (after, figures) = epoch(&[POISON; 5], window, 1, state.clone());
        assert!(bits(&after) == before, "in windows of {window}");
        assert!(figures.loss.is_nan(), "nothing was learned from");
        // What follows is as if it had not been there.
        let [with, without] = [after, state.clone()].map(|it| bits(&epoch(&[7, 4], 1, 2, it).0));
        assert!(with == without && with != before);
    }
}

#[test]
fn an_epoch_whose_time_is_over_as_it_begins_has_steps() {
    for window in [1, 2] {
        let mut training = training_of(&[4, 5, 7, 4, 7], window);
        training.config.max_minutes = Some(1e-9);
        training.schedule = Schedule::new(&training.config, 5, 0, None);
        let (_, figures) = training.train(1, State::new(model(), &config())).unwrap();
        assert!(training.schedule.is_out_of_time());
        assert_eq!(training.schedule.begun(), window);
        assert!(figures.loss.is_finite(), "{figures:?}");
    }
}

#[test]
fn steps_in_windows_are_made_at_their_rates_one_that_is_refused_among_them_or_not() {
    const FIRST: [u32; 7] = [4, POISON, 5, 7, POISON, 7, 4];
    let start = || State::new(model(), &config());
    let (one_by_one, figures) = epoch(&FIRST, 1, 1, start());
    assert!(figures.loss.is_finite() && figures.exact_match.is_finite());
    for first in [&FIRST[..], &[4, 5, 7, 4, 7]] {
        let (alone, figures) = epoch(first, 1, 1, start());
        for window in [2, 3, 8] {
            let (unread, same) = epoch(first, window, 1, start());
            assert!(bits(&unread) == bits(&alone), "in windows of {window}");
            assert_eq!(same, figures);
        }
    }
    // By hand.
    let training = training_of(&FIRST, 1);
    let mut random = config().random(1);
    let _: u64 = random.random();
    let mut schedule = Schedule::new(&config(), 100, 0, None);
    let mut state = start();
    let mut refused = 0;
    for batch in training.train.deal(&mut random) {
        let rate = schedule.step();
        let examples = training.train.examples(&batch);
        if examples[0].source[0] == POISON {
            refused += 1;
            continue;
        }
        let batch = Batch::new(&examples, &training.device);
        let gradients = state.trainee.train_step(batch).gradients;
        state = state.step(schedule.begun(), rate, gradients);
    }
    assert_eq!(refused, 2);
    assert!(bits(&state) == bits(&one_by_one));
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
    let one_by_one = training_of(&[4, 5], 1);
    let batch = Batch::new(&one_by_one.train.get(0), &one_by_one.device);
    let norm = start.trainee.train_step(batch).norm.unwrap();
    let norm = norm.read().unwrap();
    assert!((1e20..1e21).contains(&norm), "{norm:e}");

    let (after, figures) = epoch(&[4, 5], 1, 1, start.clone());
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
    let (unread, same) = epoch(&[4, 5], 8, 1, start);
    assert!(bits(&unread) == bits(&after) && same == figures);
}

#[test]
fn the_reason_names_the_first_parameter_or_the_loss() {
    let state = State::new(model(), &config());
    let training = training_of(&[POISON, 4], 1);
    let step = |batch| {
        let batch = Batch::new(&training.train.get(batch), &training.device);
        state.trainee.train_step(batch)
    };
    let fault = |output: &TrainOutput| output.fault(&state.trainee).unwrap();
    let expected = "the gradient of encoder.embedding.weight is not finite";
    assert_eq!(fault(&step(0)).unwrap(), expected);
    let mut good = step(1);
    assert_eq!(fault(&good), None);
    let is_finite = |it: &TrainOutput| TrainOutput::are_finite(slice::from_ref(it)).unwrap();
    assert!(is_finite(&good) && !is_finite(&step(0)));
    // Behind a maximum or a mask, a NaN leaves no trace in the gradients.
    for loss in [f32::NAN, f32::INFINITY] {
        good.output.loss = good.output.loss.full_like(loss);
        assert_eq!(fault(&good).unwrap(), format!("its loss is {loss}"));
        assert!(!is_finite(&good));
    }
}

/// A training in a folder of its own.
fn training(run: &RunDir, first: &[u32], resume_from: Option<usize>) -> Training<Model> {
    Training {
        model: model(),
        train: examples(first),
        valid: examples(&[4]),
        config: config(),
        run: run.clone(),
        resume_from,
        interrupter: Interrupter::new(),
        observer: (),
    }
}

/// A training that ends after an epoch, as if it had been stopped there.
fn stopped_after(run: &RunDir, first: &[u32], resume_from: Option<usize>, epochs: usize) {
    let mut training = training(run, first, resume_from);
    training.config.epochs = epochs;
    assert_eq!(training.launch().unwrap(), TrainingEnd::LastEpoch);
}

#[test]
fn ten_in_a_row_end_the_training_across_epochs_and_interruptions() {
    let (_folder, run) = folder();
    let check = |resume_from| {
        let error = training(&run, &[POISON; 4], resume_from).launch();
        let error = format!("{:?}", error.unwrap_err());
        let expected = "Diverged { epoch: 3, step: 2, steps: 10, reason: \"the gradient of \
                        encoder.embedding.weight is not finite\", checkpoint: None }";
        assert_eq!(error, expected);
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
