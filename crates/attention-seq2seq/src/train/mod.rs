//! Training with `burn-train`.

mod metric;
mod progress;
mod step;

pub use metric::ExactMatch;
pub use progress::PlainProgress;
pub use step::{StepOutput, Trainee};

use std::path::Path;
use std::sync::Arc;

use attention_core::Alignment;
use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::InMemDataset;
use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::LrSchedulerRecord;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::Module;
use burn::optim::{AdamConfig, OptimizerRecord};
use burn::store::RecordError;
use burn::train::checkpoint::{
    ComposedCheckpointingStrategy, KeepLastNCheckpoints, MetricCheckpointingStrategy,
};
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{CharErrorRate, LossMetric};
use burn::train::{
    Interrupter, Learner, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
};
use serde::{Deserialize, Serialize};

use crate::batch::{Example, Seq2SeqBatcher, batches};
use crate::error::{Error, Result};
use crate::model::Seq2Seq;
use crate::run::RunDir;
use crate::vocab::Vocab;

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// How often every example is visited.
    pub epochs: usize,
    /// The number of examples in a step.
    pub batch_size: usize,
    /// Adam's learning rate in the first step; it falls along a cosine to 1 % of it in the last. (Resumed with more
    /// epochs, it follows the longer cosine from where it stands.)
    pub learning_rate: f64,
    /// The norm to which the gradient of each parameter is clipped.
    pub clip: f32,
    /// Training stops after this many epochs without a lower validation loss.
    pub patience: usize,
    /// The seed of the parameters, of the order of batches and of dropout.
    pub seed: u64,
}

impl TrainConfig {
    /// The seed for the epochs after `epoch`, so that a resumed training does not repeat the first ones.
    pub fn seed_after(&self, epoch: Option<usize>) -> u64 {
        self.seed.wrapping_add(epoch.unwrap_or(0) as u64)
    }

    /// # Errors
    /// If a number is out of its range.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("the number of epochs", self.epochs),
            ("the batch size", self.batch_size),
            ("the patience", self.patience),
        ];
        for (what, number) in positive {
            if number == 0 {
                return Err(config_error(what, "at least 1", number));
            }
        }
        if !(self.learning_rate > 0.0 && self.learning_rate <= 1.0) {
            let expected = "more than 0 and at most 1";
            return Err(config_error(
                "the learning rate",
                expected,
                self.learning_rate,
            ));
        }
        if !(self.clip > 0.0 && self.clip.is_finite()) {
            return Err(config_error("the clipping norm", "more than 0", self.clip));
        }
        Ok(())
    }
}

fn config_error(what: &str, expected: &str, found: impl ToString) -> Error {
    Error::Config {
        what: what.to_string(),
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

/// How a training ended.
pub struct Trained {
    /// Whether it was interrupted before its last epoch.
    pub interrupted: bool,
}

/// Trains `model` and leaves checkpoints and metrics in the folder of `run`.
///
/// The loss is the mean cross-entropy over tokens, plus the mean over examples of [`Alignment::penalty`], if the
/// attention has one.
///
/// The model must be on a training device (`device.autodiff()`). A checkpoint is written after every epoch, whole or
/// not at all: the last two and the one with the lowest validation loss are kept. With `resume_from`, training goes
/// on after that epoch's checkpoint: parameters, optimizer and learning rate are those of then, while the patience
/// begins anew and the checkpoints from before stay.
///
/// # Errors
/// If there is nothing to train or validate on, the checkpoint to go on from cannot be loaded, or `burn-train` stops
/// on an error.
pub fn train<A: Alignment + 'static>(
    model: Seq2Seq<A>,
    train_examples: Vec<Example>,
    valid_examples: Vec<Example>,
    config: &TrainConfig,
    run: &RunDir,
    resume_from: Option<usize>,
    interrupter: Interrupter,
) -> Result<Trained> {
    config.check()?;
    for (what, examples) in [
        ("training", &train_examples),
        ("validation", &valid_examples),
    ] {
        if examples.is_empty() {
            let what = format!("there are no {what} pairs");
            return Err(Error::EmptyData { what });
        }
    }
    let trainee = Trainee::new(model);
    if let Some(epoch) = resume_from {
        check_checkpoint(&trainee, run, epoch)?;
    }
    let train_batches = batches(train_examples, config.batch_size);
    let iterations = train_batches.len().saturating_mul(config.epochs);
    let loader = DataLoaderBuilder::new(Seq2SeqBatcher)
        .batch_size(1)
        .shuffle(config.seed_after(resume_from))
        .build(InMemDataset::new(train_batches));
    let valid_loader =
        DataLoaderBuilder::new(Seq2SeqBatcher)
            .batch_size(1)
            .build(InMemDataset::new(batches(
                valid_examples,
                config.batch_size,
            )));

    let schedule = CosineAnnealingLrSchedulerConfig::new(config.learning_rate, iterations.max(1))
        .with_min_lr(config.learning_rate * 0.01)
        .init()
        .map_err(|reason| config_error("the learning rate", "one Burn accepts", reason))?;
    let optimizer = AdamConfig::new()
        .with_epsilon(1e-8)
        .with_grad_clipping(Some(GradientClippingConfig::Norm(config.clip)))
        .init();

    let loss = LossMetric::new();
    let best = |metric: &LossMetric| {
        MetricCheckpointingStrategy::new(metric, Aggregate::Mean, Direction::Lowest, Split::Valid)
    };
    let mut training = SupervisedTraining::new(run.path(), loader, valid_loader)
        .metrics((LossMetric::new(), ExactMatch::new(), token_error_rate()))
        .with_default_checkpointers()
        .with_checkpointing_strategy(
            ComposedCheckpointingStrategy::builder()
                .add(KeepLastNCheckpoints::new(2))
                .add(best(&loss))
                .build(),
        )
        .early_stopping(MetricEarlyStoppingStrategy::new(
            &loss,
            Aggregate::Mean,
            Direction::Lowest,
            Split::Valid,
            StoppingCondition::NoImprovementSince {
                n_epochs: config.patience,
            },
        ))
        .renderer(Box::new(PlainProgress::new(interrupter.clone())))
        .with_interrupter(interrupter)
        .num_epochs(config.epochs);
    if let Some(epoch) = resume_from {
        training = training.checkpoint(epoch);
    }
    let result = training.launch(Learner::new(trainee, optimizer, schedule));
    match result.error {
        Some(error) => Err(config_error(
            "training",
            "to reach its last epoch",
            one_line(&error),
        )),
        None => Ok(Trained {
            interrupted: result.interrupted.is_some(),
        }),
    }
}

/// `burn-train` panics on a checkpoint that it cannot load.
fn check_checkpoint<A: Alignment>(trainee: &Trainee<A>, run: &RunDir, epoch: usize) -> Result<()> {
    let check = |part: &str, load: &dyn Fn(&Path) -> std::result::Result<(), RecordError>| {
        let file = run.checkpoint_file(part, epoch);
        load(&file).map_err(|error| {
            let advice = "remove it to go on from an earlier checkpoint";
            Error::unusable(&file, format!("{error}; {advice}"))
        })
    };
    check("model", &|file| {
        trainee.clone().try_load_file(file).map(drop)
    })?;
    check("optim", &|file| OptimizerRecord::load(file).map(drop))?;
    check("scheduler", &|file| LrSchedulerRecord::load(file).map(drop))
}

fn token_error_rate() -> CharErrorRate {
    CharErrorRate::new().with_pad_token(Vocab::PAD as usize)
}

fn one_line(error: &Arc<burn::train::TrainingError>) -> String {
    error.to_string().replace('\n', " ")
}
