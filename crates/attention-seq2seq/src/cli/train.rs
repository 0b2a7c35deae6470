//! `seq2seq train`

use std::path::PathBuf;
use std::time::Instant;

use attention_seq2seq::batch::Example;
use attention_seq2seq::data::{Pair, Pairs, group_by_source};
use attention_seq2seq::device::describe;
use attention_seq2seq::model::Seq2SeqConfig;
use attention_seq2seq::run::{AttentionKind, DataSource, RunConfig, RunDir};
use attention_seq2seq::tasks::Task;
use attention_seq2seq::tokens::Tokenization;
use attention_seq2seq::train::{TrainConfig, Trained, train};
use attention_seq2seq::translate::Translator;
use attention_seq2seq::tsv::{Columns, TsvOptions};
use attention_seq2seq::vocab::Vocab;
use attention_seq2seq::{Error, Result};
use burn::tensor::Device;
use burn::train::Interrupter;
use clap::Args;

use super::{Machine, attend, eval, say};

/// The number of validation pairs on which the kept checkpoints are compared.
const COMPARED: usize = 1_000;
/// The number of translations shown at the end.
const SHOWN: usize = 8;

#[derive(Args)]
pub(crate) struct TrainArgs {
    /// The task: dates (human-written dates to ISO 8601), reverse or copy [default: dates].
    #[arg(conflicts_with = "data")]
    task: Option<String>,
    /// A file of pairs instead: source TAB target, one pair a line.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    // `requires` alone would not do: clap waives it beside a task, because `--data` would conflict with that.
    /// The pairs to validate on [default: 5 % of the sources of --data].
    #[arg(long, value_name = "FILE", requires = "data", conflicts_with = "task")]
    valid: Option<PathBuf>,
    /// The columns of source and target, from 1.
    #[arg(
        long,
        value_name = "SOURCE,TARGET",
        default_value = "1,2",
        requires = "data",
        conflicts_with = "task"
    )]
    columns: Columns,
    /// The tokens of a source, spaces or chars [default: guessed from the file].
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "data",
        conflicts_with = "task"
    )]
    source_tokens: Option<Tokenization>,
    /// The tokens of a target, spaces or chars [default: guessed from the file].
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "data",
        conflicts_with = "task"
    )]
    target_tokens: Option<Tokenization>,
    /// The number of pairs of a task generated to learn from.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 24_000,
        conflicts_with = "data"
    )]
    train_pairs: usize,
    /// The number of pairs of a task generated to validate on, none of whose sources is learned from.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        conflicts_with = "data"
    )]
    valid_pairs: usize,

    /// How the decoder looks at the source.
    #[arg(long, value_enum, default_value = "additive")]
    attention: AttentionKind,
    /// The size of a token's embedding.
    #[arg(long, value_name = "N", default_value_t = 32)]
    embedding: usize,
    /// The size of a state of encoder and decoder.
    #[arg(long, value_name = "N", default_value_t = 128)]
    hidden: usize,
    /// The number of recurrent layers of encoder and decoder.
    #[arg(long, value_name = "N", default_value_t = 1)]
    layers: usize,
    /// Read the source left to right only.
    #[arg(long)]
    unidirectional: bool,
    /// The probability to drop an attention weight or an output feature while training.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    dropout: f64,

    /// How often every pair is visited [default: 3 for a task, 6 for a file].
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// The number of pairs in a step.
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch_size: usize,
    /// Adam's learning rate at the start; it falls along a cosine.
    #[arg(long, value_name = "RATE", default_value_t = 0.004)]
    learning_rate: f64,
    /// The norm to which the gradient of each parameter is clipped.
    #[arg(long, value_name = "NORM", default_value_t = 1.0)]
    clip: f32,
    /// Stop after this many epochs without a lower validation loss.
    #[arg(long, value_name = "EPOCHS", default_value_t = 3)]
    patience: usize,
    /// The seed of data, parameters and dropout.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// The folder of the run [default: runs/TASK, or runs/FILE without its ending].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in that folder, from its newest checkpoint and with its settings. Only the number of epochs
    /// may be raised, with --epochs: the learning rate then follows the longer cosine from where it stands.
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Start anew in a folder that holds a run.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    machine: Machine,
}

/// What is needed to train: settings, pairs and vocabularies.
struct Prepared {
    config: RunConfig,
    pairs: Pairs,
    source: Vocab,
    target: Vocab,
    resume_from: Option<usize>,
}

impl TrainArgs {
    pub(crate) fn run(self) -> Result<()> {
        let run = RunDir::new(self.folder());
        let prepared = match self.resume {
            true => self.resume(&run)?,
            false => self.prepare(&run)?,
        };
        let device = self.machine.open()?;
        let config = &prepared.config.train;
        device.seed(config.seed_after(prepared.resume_from));
        match prepared.resume_from {
            Some(_) => run.save_config(&prepared.config)?,
            None => {
                run.vacate()?;
                run.create(&prepared.config, &prepared.source, &prepared.target)?;
            }
        }
        say(format_args!(
            "{} training pairs, {} validation pairs; {} source and {} target tokens; device {}",
            prepared.pairs.train.len(),
            prepared.pairs.valid.len(),
            prepared.source.len(),
            prepared.target.len(),
            describe(self.machine.name(), &device),
        ))?;
        let started = Instant::now();
        let interrupter = Interrupter::new();
        on_interrupt(&interrupter);
        let trained = launch(&prepared, &run, interrupter.clone(), &device)?;
        // From here on there is nothing to stop gently: Ctrl-C ends the program.
        interrupter.stop(None);
        say(format_args!(
            "trained for {:.0} s",
            started.elapsed().as_secs_f64()
        ))?;
        finish(&run, &prepared.pairs.valid, &trained, &device)
    }

    fn folder(&self) -> PathBuf {
        if let Some(folder) = &self.out {
            return folder.clone();
        }
        let name = match &self.data {
            Some(file) => file
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
            None => self.task.clone(),
        };
        PathBuf::from("runs").join(name.unwrap_or_else(|| Task::Dates.to_string()))
    }

    fn data_source(&self) -> Result<DataSource> {
        let Some(file) = &self.data else {
            return Ok(DataSource::Task {
                task: self.task.as_deref().unwrap_or("dates").parse()?,
                train: self.train_pairs,
                valid: self.valid_pairs,
            });
        };
        let mut options = TsvOptions::guess(file, self.columns)?;
        options.source_tokens = self.source_tokens.unwrap_or(options.source_tokens);
        options.target_tokens = self.target_tokens.unwrap_or(options.target_tokens);
        // The model may be evaluated, and the run resumed, from another folder.
        let absolute = |file: &PathBuf| {
            std::path::absolute(file).map_err(|source| Error::Io {
                action: "find",
                path: file.clone(),
                source,
            })
        };
        Ok(DataSource::Tsv {
            train: absolute(file)?,
            valid: self.valid.as_ref().map(absolute).transpose()?,
            options,
        })
    }

    /// A new run.
    fn prepare(&self, run: &RunDir) -> Result<Prepared> {
        if run.exists() && !self.overwrite {
            return Err(Error::Config {
                what: format!("the folder {}", run.path().display()),
                expected: "a folder without a run (name another with --out, or add --resume or --overwrite)"
                    .to_string(),
                found: "a run".to_string(),
            });
        }
        let train = TrainConfig {
            epochs: self
                .epochs
                .unwrap_or(if self.data.is_some() { 6 } else { 3 }),
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            clip: self.clip,
            patience: self.patience,
            seed: self.seed,
        };
        train.check()?;
        let data = self.data_source()?;
        let pairs = data.pairs(self.seed)?;
        let source = Vocab::build(pairs.train.iter().map(|pair| pair.source.as_slice()));
        let target = Vocab::build(pairs.train.iter().map(|pair| pair.target.as_slice()));
        let model = Seq2SeqConfig::new(source.len(), target.len())
            .with_embedding_size(self.embedding)
            .with_hidden_size(self.hidden)
            .with_layers(self.layers)
            .with_bidirectional(!self.unidirectional)
            .with_dropout(self.dropout);
        model.check()?;
        Ok(Prepared {
            config: RunConfig::new(self.attention, model, train, data, &pairs.train),
            pairs,
            source,
            target,
            resume_from: None,
        })
    }

    /// A run that was stopped.
    fn resume(&self, run: &RunDir) -> Result<Prepared> {
        let mut config = run.load_config()?;
        if self.task.is_some() || self.data.is_some() {
            let found = self.data_source()?;
            if !found.is_same_data(&config.data) {
                return Err(Error::Config {
                    what: format!("the run in {}", run.path().display()),
                    expected: format!("to go on with its {}", config.data),
                    found: found.to_string(),
                });
            }
        }
        let (source, target) = run.load_vocabs(&config.model)?;
        config.train.epochs = config.train.epochs.max(self.epochs.unwrap_or(0));
        Ok(Prepared {
            pairs: config.data.pairs(config.train.seed)?,
            config,
            source,
            target,
            resume_from: run.checkpoints().last().copied(),
        })
    }
}

fn launch(
    prepared: &Prepared,
    run: &RunDir,
    interrupter: Interrupter,
    device: &Device,
) -> Result<Trained> {
    let device = device.clone().autodiff();
    let config = &prepared.config;
    let attention = config.attention.init(&config.model, &device);
    let model = config.model.init(attention, &device);
    let examples = |pairs: &[Pair]| -> Vec<Example> {
        let example = |pair: &Pair| Example {
            source: prepared.source.encode(&pair.source),
            target: prepared.target.encode(&pair.target),
        };
        pairs.iter().map(example).collect()
    };
    train(
        model,
        examples(&prepared.pairs.train),
        examples(&prepared.pairs.valid),
        &config.train,
        run,
        prepared.resume_from,
        interrupter,
    )
}

/// Ctrl-C stops training after the step in hand; a second one ends the program at once.
fn on_interrupt(interrupter: &Interrupter) {
    let interrupter = interrupter.clone();
    let handler = move || match interrupter.should_stop() {
        true => std::process::exit(130),
        false => interrupter.stop(Some("Ctrl-C")),
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("note: Ctrl-C will end training without a last word ({error})");
    }
}

/// Keeps the best checkpoint as the model, and shows it at work.
fn finish(run: &RunDir, valid: &[Pair], trained: &Trained, device: &Device) -> Result<()> {
    let folder = run.path().display();
    let compared = &valid[..valid.len().min(COMPARED)];
    let mut best = None;
    for epoch in run.checkpoints() {
        let translator = Translator::from_checkpoint(run, epoch, device)?;
        let errors = translator.errors(compared);
        let quality = (errors.exact_match(), -errors.token_error_rate());
        if best.is_none_or(|(known, _)| quality >= known) {
            best = Some((quality, epoch));
        }
    }
    let Some((_, epoch)) = best else {
        return say(format_args!(
            "stopped before the first checkpoint; nothing is left to use in {folder}"
        ));
    };
    run.keep_model(epoch)?;
    if trained.interrupted {
        say(format_args!(
            "stopped; epoch {epoch} is kept as the model, `--resume` goes on (in {folder})"
        ))?;
    }
    let translator = Translator::load(run, device)?;
    say(format_args!(
        "the model of epoch {epoch}, on the validation pairs:"
    ))?;
    eval::report(&translator.errors(valid))?;
    let groups = group_by_source(valid);
    let shown = &groups[..groups.len().min(SHOWN)];
    let sources: Vec<&[String]> = shown.iter().map(|group| group.source).collect();
    let (source_tokens, target_tokens) = translator.config().data.tokens();
    for (group, output) in shown.iter().zip(translator.translate(&sources)) {
        let right = group.targets.contains(&output.as_slice());
        let mark = if right { ' ' } else { '!' };
        let source = source_tokens.join(group.source);
        let output = target_tokens.join(&output);
        say(format_args!("{mark} {source:<32} -> {output}"))?;
    }
    say("\nwhat it attended to, output by output:")?;
    let picture = run.path().join("attention.svg");
    attend::show(&translator, shown[0].source, Some(&picture))?;
    say(format_args!(
        "model, vocabularies and metrics are in {folder}"
    ))
}
