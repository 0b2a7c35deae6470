//! A training from the first epoch to the last.

use std::path::Path;

use attention_core::StatefulAttention;
use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::LrSchedulerRecord;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::Module;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::RecordError;
use burn::train::checkpoint::{
    ComposedCheckpointingStrategy, KeepLastNCheckpoints, MetricCheckpointingStrategy,
};
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{CharErrorRate, LossMetric};
use burn::train::{
    Interrupter, Learner, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
};

use super::metric::ExactMatch;
use super::progress::PlainProgress;
use super::{Adam, TrainConfig, Trainee};
use crate::batch::{Example, Seq2SeqBatcher, batches};
use crate::data::check_counts;
use crate::error::{Error, Result};
use crate::model::Seq2Seq;
use crate::run::RunDir;
use crate::vocab::Vocab;

/// A training of a [`Seq2Seq`] model with any attention, which leaves checkpoints and metrics in the folder of a run.
///
/// The loss is the mean cross-entropy over target tokens, plus [`StatefulAttention::penalty`] if the attention has one:
/// its sum over examples, divided by the number of target tokens.
///
/// ```
/// use attention_core::DotProductAttentionConfig;
/// use attention_seq2seq::{Example, RunDir, Seq2SeqConfig, TrainConfig, Training};
/// use burn::tensor::Device;
/// use burn::train::Interrupter;
///
/// let device = Device::flex().autodiff();
/// let attention = DotProductAttentionConfig::new().init();
/// let model = Seq2SeqConfig::new(8, 8).with_hidden_size(4).init(attention, &device);
/// let copies = |first| vec![Example { source: vec![first, 5], target: vec![first, 5] }];
///
/// let folder = tempfile::tempdir().unwrap();
/// let training = Training {
///     model,
///     train: copies(4),
///     valid: copies(6),
///     config: TrainConfig { epochs: 1, ..TrainConfig::default() },
///     run: RunDir::new(folder.path()),
///     resume_from: None,
///     interrupter: Interrupter::new(),
/// };
/// assert!(!training.launch()?.interrupted);
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
pub struct Training<A: StatefulAttention> {
    /// The model, on a training device (`device.autodiff()`).
    pub model: Seq2Seq<A>,
    /// The examples to learn from.
    pub train: Vec<Example>,
    /// The examples to validate on after each epoch.
    pub valid: Vec<Example>,
    /// The settings.
    pub config: TrainConfig,
    /// The folder for checkpoints and metrics.
    pub run: RunDir,
    /// The epoch whose checkpoint training goes on from, with its parameters, optimizer and learning rate. The patience
    /// begins anew, and earlier checkpoints stay.
    pub resume_from: Option<usize>,
    /// Stops training after the current step, on request from another thread.
    pub interrupter: Interrupter,
}

/// The outcome of a training.
pub struct Trained {
    /// Whether it was interrupted before its last epoch.
    pub interrupted: bool,
}

impl<A: StatefulAttention + 'static> Training<A> {
    /// Trains, and prints a line for each epoch on the standard output.
    ///
    /// A checkpoint is written after each epoch, whole or not at all: the last two and the one with the lowest
    /// validation loss are kept.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting is out of its range or `burn-train` stops on an error, [`Error::EmptyData`] if
    /// there is nothing to train or validate on, [`Error::Checkpoint`] if the checkpoint to go on from cannot be
    /// loaded.
    pub fn launch(self) -> Result<Trained> {
        let Self {
            model,
            train,
            valid,
            config,
            run,
            resume_from,
            interrupter,
        } = self;
        config.check()?;
        check_counts(train.len(), valid.len())?;
        let trainee = Trainee::new(model).with_clip(config.clip);
        if let Some(epoch) = resume_from {
            check_checkpoint(&trainee, &run, epoch)?;
        }
        let train_batches = batches(train, config.batch_size);
        let iterations = train_batches.len().saturating_mul(config.epochs);
        let loader = DataLoaderBuilder::new(Seq2SeqBatcher)
            .batch_size(1)
            .shuffle(config.seed_after(resume_from))
            .build(InMemDataset::new(train_batches));
        let valid_batches = batches(valid, config.batch_size);
        let valid_loader = DataLoaderBuilder::new(Seq2SeqBatcher)
            .batch_size(1)
            .build(InMemDataset::new(valid_batches));

        let schedule =
            CosineAnnealingLrSchedulerConfig::new(config.learning_rate, iterations.max(1))
                .with_min_lr(config.learning_rate * 0.01)
                .init()
                .map_err(|reason| Error::config("the learning rate", "one Burn accepts", reason))?;
        let optimizer = ModuleOptimizer::from(Adam::new());

        let loss = LossMetric::new();
        let lowest_loss = MetricCheckpointingStrategy::new(
            &loss,
            Aggregate::Mean,
            Direction::Lowest,
            Split::Valid,
        );
        let patience = StoppingCondition::NoImprovementSince {
            n_epochs: config.patience,
        };
        let mut training = SupervisedTraining::new(run.path(), loader, valid_loader)
            .metrics((LossMetric::new(), ExactMatch::new(), token_error_rate()))
            .with_default_checkpointers()
            .with_checkpointing_strategy(
                ComposedCheckpointingStrategy::builder()
                    .add(KeepLastNCheckpoints::new(2))
                    .add(lowest_loss)
                    .build(),
            )
            .early_stopping(MetricEarlyStoppingStrategy::new(
                &loss,
                Aggregate::Mean,
                Direction::Lowest,
                Split::Valid,
                patience,
            ))
            .renderer(Box::new(PlainProgress::new(interrupter.clone())))
            .with_interrupter(interrupter)
            .num_epochs(config.epochs);
        if let Some(epoch) = resume_from {
            training = training.checkpoint(epoch);
        }
        let result = training.launch(Learner::new(trainee, optimizer, schedule));
        if let Some(error) = result.error {
            let found = error.to_string().replace('\n', " ");
            return Err(Error::config("training", "to reach its last epoch", found));
        }
        Ok(Trained {
            interrupted: result.interrupted.is_some(),
        })
    }
}

/// `burn-train` panics on a checkpoint that it cannot load.
fn check_checkpoint<A: StatefulAttention>(
    trainee: &Trainee<A>,
    run: &RunDir,
    epoch: usize,
) -> Result<()> {
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
