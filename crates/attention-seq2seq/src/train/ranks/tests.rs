use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use attention_core::DotProductAttention;
use attention_tests::parameters;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use super::*;
use crate::data::examples::{Examples, example};
use crate::device::test_device;
use crate::error::{Error, Result};
use crate::model::Seq2Seq;
use crate::run::{Epoch, RunDir, TrainConfig};
use crate::tests::{folder, model};
use crate::train::{Interrupter, TrainEvent, TrainObserver, Training, TrainingEnd};

/// Threads that sum their values one after the other, so that all have the same sums.
struct Threads {
    barrier: Barrier,
    values: Mutex<Vec<Vec<f32>>>,
}

struct Thread {
    rank: usize,
    all: Arc<Threads>,
}

impl Communicator for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.all.values.lock().unwrap().len()
    }

    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()> {
        self.all.values.lock().unwrap()[self.rank] = values.to_vec();
        self.all.barrier.wait();
        values.fill(0.0);
        for of_rank in &*self.all.values.lock().unwrap() {
            assert_eq!(of_rank.len(), values.len(), "one message for all");
            let pairs = values.iter_mut().zip(of_rank);
            pairs.for_each(|(sum, x)| *sum += x);
        }
        self.all.barrier.wait();
        Ok(())
    }
}

/// The results of `work` on `size` ranks.
fn on_ranks<T: Send>(size: usize, work: impl Fn(&Thread) -> T + Sync) -> Vec<T> {
    let all = Arc::new(Threads {
        barrier: Barrier::new(size),
        values: Mutex::new(vec![Vec::new(); size]),
    });
    thread::scope(|scope| {
        let ranks = (0..size).map(|rank| {
            let (all, work) = (Arc::clone(&all), &work);
            scope.spawn(move || work(&Thread { rank, all }))
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// Copies of 1 to 5 tokens: batches of 5 have uneven shares, and the last has one example alone.
fn examples() -> Examples {
    let copy = |at: u32| {
        let tokens = (0..1 + at % 5).map(|token| 4 + (at + 3 * token) % 4);
        let tokens: Vec<u32> = tokens.collect();
        example(&tokens, &tokens)
    };
    (0..21).map(copy).collect::<Vec<_>>().into()
}

fn training<O: TrainObserver>(
    run: &RunDir,
    epochs: usize,
    resume_from: Option<usize>,
    observer: O,
) -> Training<Seq2Seq<DotProductAttention>, O> {
    Training {
        model: model(),
        train: examples(),
        valid: examples(),
        config: TrainConfig {
            epochs,
            batch_size: 5,
            learning_rate: 0.01,
            patience: 9,
            ..TrainConfig::default()
        },
        run: run.clone(),
        resume_from,
        interrupter: Interrupter::new(),
        observer,
    }
}

#[track_caller]
fn assert_same_figures(found: &[Epoch], expected: &[Epoch]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        for (found, expected) in [(found.train, expected.train), (found.valid, expected.valid)] {
            let difference = (found.loss - expected.loss).abs();
            assert!(difference < 1e-4, "{found:?} {expected:?}");
            assert_eq!(found.exact_match, expected.exact_match);
            assert_eq!(found.token_errors, expected.token_errors);
        }
    }
}

#[test]
fn ranks_learn_what_one_process_learns_and_the_first_alone_writes() {
    let (_folder, run) = folder();
    training(&run, 4, None, ()).launch().unwrap();
    let expected = run.history().unwrap();
    assert!(expected[3].valid.loss < expected[0].valid.loss);
    for size in [1, 2, 3, 7] {
        let (_folder, run) = folder();
        let events = on_ranks(size, |rank| {
            let mut events = 0;
            let count = |_: &TrainEvent| events += 1;
            let end = training(&run, 4, None, count).launch_on(rank);
            assert_eq!(end.unwrap(), TrainingEnd::LastEpoch);
            events
        });
        assert!(events[0] > 0 && events[1..].iter().all(|&it| it == 0));
        assert_same_figures(&run.history().unwrap(), &expected);
    }
}

#[test]
fn another_number_of_ranks_goes_on() {
    let (_folder, whole) = folder();
    training(&whole, 4, None, ()).launch().unwrap();
    let (_folder, run) = folder();
    on_ranks(3, |rank| {
        training(&run, 4, None, ()).launch_on(rank).unwrap()
    });
    // From a checkpoint before the last, as after a kill.
    on_ranks(2, |rank| {
        let end = training(&run, 4, Some(3), ()).launch_on(rank);
        assert_eq!(end.unwrap(), TrainingEnd::LastEpoch);
    });
    assert_same_figures(&run.history().unwrap(), &whole.history().unwrap());
}

#[test]
fn a_rank_with_other_data_settings_or_parameters_is_named_everywhere() {
    type Change = fn(&mut Training<Seq2Seq<DotProductAttention>>);
    let changes: [(&str, Change); 4] = [
        ("settings", |it| it.config.learning_rate *= 2.0),
        ("training pairs", |it| {
            it.train = vec![examples().get(1)].into()
        }),
        ("validation pairs", |it| {
            it.valid = vec![examples().get(1)].into()
        }),
        ("parameters", |it| {
            it.model.encoder.embedding.weight = model().decoder.embedding.weight;
        }),
    ];
    let errors = |change: Change| {
        let (_folder, run) = folder();
        let errors = on_ranks(3, |rank| {
            let mut training = training(&run, 1, None, ());
            if rank.rank == 2 {
                change(&mut training);
            }
            training.launch_on(rank).unwrap_err().to_string()
        });
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        errors[0].clone()
    };
    for (what, change) in changes {
        let expected = format!("rank 2 has other {what} than rank 0: start the same program ");
        let found = errors(change);
        assert!(found.starts_with(&expected), "{found}");
    }
}

#[test]
fn one_rank_that_is_interrupted_stops_all() {
    let (_folder, run) = folder();
    let ends = on_ranks(2, |rank| {
        let training = training(&run, 1000, None, ());
        if rank.rank == 1 {
            training.interrupter.stop();
        }
        training.launch_on(rank).unwrap()
    });
    assert_eq!(ends, [TrainingEnd::Interrupted; 2]);
}

#[test]
fn ranks_end_together_when_the_time_of_the_first_is_over() {
    let (_folder, run) = folder();
    let ends = on_ranks(2, |rank| {
        let mut training = training(&run, 1_000_000, None, ());
        training.config.patience = 1_000_000;
        training.config.max_minutes = Some(0.02);
        training.launch_on(rank).unwrap()
    });
    assert_eq!(ends, [TrainingEnd::Time; 2]);
}

#[test]
fn a_step_whose_gradients_are_not_finite_at_one_rank_is_refused_by_all() {
    let (_folder, run) = folder();
    let errors = on_ranks(2, |rank| {
        let mut training = training(&run, 9, None, ());
        training.model = parameters::changed(training.model, |path, mut value| {
            if path == "encoder.embedding.weight" {
                value.data[3 * 4] = f64::NAN;
            }
            value
        });
        // One example has the token of that row.
        let [with, without] = [4, 5].map(|token| example(&[token], &[5]));
        training.train = vec![without, with].into();
        training.config.batch_size = 2;
        training.config.epochs = 20;
        training.config.patience = 20;
        let error = training.launch_on(rank).unwrap_err();
        // The first has forgotten the epochs without a step before any returns.
        assert_eq!(run.history().unwrap(), [], "rank {}", rank.rank);
        error
    });
    assert!(matches!(errors[0], Error::Diverged { steps: 10, .. }));
    assert!(matches!(errors[1], Error::RankFailed { rank: 0 }));
}

#[test]
fn a_failure_of_one_is_told_to_all() {
    let results = on_ranks(3, |rank| {
        let ranks: &dyn Communicator = rank;
        let own = match rank.rank {
            1 => Err(Error::config("a file", "one", "none")),
            _ => Ok(rank.rank),
        };
        ranks.agree(own).unwrap_err()
    });
    assert!(matches!(results[0], Error::RankFailed { rank: 1 }));
    assert!(matches!(results[1], Error::Config { .. }));
    assert!(matches!(results[2], Error::RankFailed { rank: 1 }));
    let all_good = on_ranks(2, |rank| {
        let ranks: &dyn Communicator = rank;
        ranks.agree(Ok(rank.rank)).unwrap()
    });
    assert_eq!(all_good, [0, 1]);
}

#[test]
fn numbers_of_any_size_are_gathered_and_summed() {
    let large = usize::MAX / 3;
    let sums = on_ranks(3, |rank| {
        let ranks: &dyn Communicator = rank;
        let first = ranks.first([u64::MAX - rank.rank as u64]).unwrap();
        assert_eq!(first, [u64::MAX]);
        let mut sums = [large, rank.rank];
        ranks.sum(sums.each_mut()).unwrap();
        sums
    });
    assert_eq!(sums, [[3 * large, 3]; 3]);
}

/// Two layers; the first is there twice.
fn layers(device: &Device) -> Vec<Linear> {
    let layer = || LinearConfig::new(1, 1).init(device);
    let shared: Linear = layer();
    vec![shared.clone(), layer(), shared]
}

#[test]
fn gradients_are_summed_where_some_rank_has_one() {
    let device = test_device();
    let layers = layers(&device.clone().autodiff());
    let [weight, bias] = [layers[0].weight.id, layers[1].bias.as_ref().unwrap().id];
    let sums = on_ranks(2, |rank| {
        let mut gradients = GradientsParams::new();
        let value = 1.0 + rank.rank as f32;
        gradients.register(weight, Tensor::<2>::full([1, 1], value, &device));
        if rank.rank == 1 {
            gradients.register(bias, Tensor::<1>::full([1], 8.0, &device));
        }
        let sums = sum_gradients(rank, gradients, &layers, 0.5).unwrap();
        assert_eq!(sums.len(), 2);
        let weight = sums.get::<2>(weight).unwrap().into_scalar::<f32>();
        let bias = sums.get::<1>(bias).unwrap().into_scalar::<f32>();
        [weight, bias]
    });
    assert_eq!(sums, [[1.5, 4.0]; 2]);
}
