//! `seq2seq train`

mod args;
mod as_text;
mod cell;
mod data;
mod data_settings;
mod finish;
mod layers;
mod log;
mod model;
mod presets;
mod progress;
mod settings;

pub(crate) use args::TrainArgs;
use data::notes_of_rare;
use finish::finish;
use log::{Event, Log, Observer};
pub(crate) use settings::Settings;

use std::process::ExitCode;
use std::time::Instant;

use attention_seq2seq::data::{Corpus, PairFile};
use attention_seq2seq::model::AnyModel;
use attention_seq2seq::run::RunLock;
use attention_seq2seq::train::{Communicator, TrainingEnd, with_launched};
use attention_seq2seq::{Error, Interrupter, Result, RunConfig, RunDir, Training, Vocabs};
use burn::tensor::Device;
use burn_fused_layers::is_in_host_memory;

use crate::machine::{among_threads, describe};
use crate::output::{FAILED, is_closed_output, note, report, say};

/// The exit code that shells use for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// A run that can begin or continue: settings, pairs and vocabularies.
struct Prepared {
    config: RunConfig,
    corpus: Corpus,
    vocabs: Vocabs,
    /// The epoch to continue from.
    resume_from: Option<usize>,
    /// The files of its data that the run must keep.
    streams: Vec<PairFile>,
    /// The guesses about the data, one line each, for the user.
    guesses: Vec<String>,
}

/// A prepared run, its device, and the lock on its folder if that exists already.
struct Begun {
    prepared: Prepared,
    device: Device,
    lock: Option<RunLock>,
}

impl TrainArgs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        with_launched(
            |communicator| self.run_among(communicator),
            |error, line| match is_closed_output(error) {
                true => 0,
                false => {
                    report(line);
                    FAILED
                }
            },
        )
    }

    fn run_among(self, communicator: &dyn Communicator) -> Result<ExitCode> {
        let run = RunDir::new(self.folder());
        let log = self.log.log();
        let begun = self.begin(&run, log, communicator);
        let Some(begun) = communicator.agree(begun)? else {
            return Ok(ExitCode::SUCCESS);
        };
        let Begun {
            mut prepared,
            device,
            lock,
        } = begun;
        let interrupter = Interrupter::new();
        on_interrupt(&interrupter);
        let take = || self.take(&run, &mut prepared, lock);
        let lock = communicator.at_first(take)?;
        let config = prepared.config.clone();
        let started = Instant::now();
        let end = among_threads(|| {
            let training = prepared.training(&run, interrupter.clone(), log, &device);
            communicator.agree(training)?.launch_on(communicator)
        })?;
        // From here on Ctrl-C ends the program, since there is nothing to stop gently.
        interrupter.stop();
        let seconds = started.elapsed().as_secs_f64();
        log.say_to_anyone(format_args!("trained for {seconds:.0} s"))?;
        if end == TrainingEnd::Patience {
            let patience = config.train.patience;
            let epochs = match patience {
                1 => "an epoch".to_string(),
                _ => format!("{patience} epochs"),
            };
            log.say_to_anyone(format_args!(
                "stopped early: no lower {} for {epochs} (see --patience)",
                config.train.select
            ))?;
        }
        if end == TrainingEnd::Time {
            log.say_to_anyone("stopped: the time is over (see --max-time)")?;
        }
        if lock.is_some() {
            match finish(&run, &prepared.corpus, end, seconds, log, &device) {
                Err(error) if !is_closed_output(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(match end {
            TrainingEnd::Interrupted => ExitCode::from(INTERRUPTED),
            _ => ExitCode::SUCCESS,
        })
    }

    /// Prepares everything except the folder of a new run. Returns `None` if there is nothing to train.
    fn begin(
        &self,
        run: &RunDir,
        log: Log,
        communicator: &dyn Communicator,
    ) -> Result<Option<Begun>> {
        let is_first = communicator.is_first();
        // A missing run cannot be resumed, and no folder is created for it.
        let goes_on = self.resume && is_first && run.exists();
        let lock = goes_on.then(|| run.lock()).transpose()?;
        let prepared = if self.resume {
            self.resume(run)?
        } else {
            let given = self.given()?;
            if is_first && !self.print_config {
                self.check_absent(run)?;
            }
            self.prepare(&given, run)?
        };
        if self.print_config {
            say(Settings::of(&prepared.config).to_toml())?;
            return Ok(None);
        }
        let device = self.machine.open(communicator.local_rank())?;
        let config = prepared.config.clone();
        if is_in_host_memory(&device) {
            config.check_memory()?;
        }
        device.seed(config.train.seed);
        log.tell(&Event::Prepared {
            folder: run.path(),
            device: &describe(self.machine.name(), &device),
            train_pairs: prepared.corpus.train_len(),
            valid_pairs: prepared.corpus.valid_len(),
            settings: &config,
        })?;
        log.say_to_anyone(format_args!(
            "{} training pairs, {} validation pairs; {} source and {} target tokens; device {}",
            prepared.corpus.train_len(),
            prepared.corpus.valid_len(),
            prepared.vocabs.source.len(),
            prepared.vocabs.target.len(),
            describe(self.machine.name(), &device),
        ))?;
        if let Some(preset) = self.preset {
            let settings = preset.settings(prepared.corpus.train_len());
            let settings = settings.to_toml().replace('\n', ", ");
            log.say_to_anyone(format_args!("preset {preset}: {settings}"))?;
        }
        for guess in &prepared.guesses {
            log.say_to_anyone(guess)?;
        }
        Ok(Some(Begun {
            prepared,
            device,
            lock,
        }))
    }

    /// Takes the folder of the run, and writes its initial files.
    fn take(
        &self,
        run: &RunDir,
        prepared: &mut Prepared,
        lock: Option<RunLock>,
    ) -> Result<RunLock> {
        let lock = match lock {
            Some(lock) => lock,
            None => {
                run.check_room()?;
                let lock = run.lock()?;
                // Another training may have been faster.
                self.check_absent(run)?;
                lock
            }
        };
        if prepared.resume_from.is_some() {
            run.save_config(&prepared.config)?;
        } else {
            for stream in std::mem::take(&mut prepared.streams) {
                run.keep_stream(&stream)?;
            }
            run.create(&prepared.config, &prepared.vocabs)?;
        }
        Ok(lock)
    }

    /// The given settings, and those of the file.
    fn given(&self) -> Result<Settings> {
        let given = self.settings.over_file(self.config.as_deref())?;
        given.check_data(self.data.is_some())?;
        // The preset has one kind of model for any number of pairs.
        given.over_preset(self.preset, 0).check_model()?;
        Ok(given)
    }

    /// Checks that there is no run, or that it may be overwritten.
    fn check_absent(&self, run: &RunDir) -> Result<()> {
        if !run.exists() || self.overwrite {
            return Ok(());
        }
        let what = format!("the folder {}", run.path().display());
        let expected =
            "a folder without a run (name another with --out, or add --resume or --overwrite)";
        Err(Error::config(what, expected, "a run"))
    }

    /// A new run.
    fn prepare(&self, given: &Settings, run: &RunDir) -> Result<Prepared> {
        let data = self.data(given, run)?;
        let corpus = data.corpus;
        let settings = given.over_preset(self.preset, corpus.train_len());
        let vocab_limits = settings.vocab_limits();
        let vocabs = corpus.vocabs_within(&vocab_limits)?;
        let model = settings.model(&vocabs);
        let defaults = RunConfig::of_longest_target(model, data.source, corpus.longest_target());
        let config = RunConfig {
            attention: settings.attention.unwrap_or(defaults.attention),
            train: settings.train(corpus.train_len(), self.data.is_some()),
            vocab_limits,
            data_checksum: Some(corpus.checksum()),
            ..defaults
        };
        config.check()?;
        let select = config.train.select;
        select.check(|| corpus.longest_valid_target())?;
        Ok(Prepared {
            config,
            corpus,
            vocabs,
            resume_from: None,
            streams: data.streams,
            guesses: data.guesses,
        })
    }

    /// A stopped run.
    fn resume(&self, run: &RunDir) -> Result<Prepared> {
        let mut config = run.load_config()?;
        self.check_same_data(run, &config.data)?;
        let vocabs = run.load_vocabs(&config.model)?;
        let (train, changed) = (&mut config.train, &self.settings);
        if changed.epochs.is_some_and(|epochs| epochs > train.epochs) {
            train.steps = None;
        }
        train.epochs = train.epochs.max(changed.epochs.unwrap_or(0));
        train.learning_rate = changed.learning_rate.unwrap_or(train.learning_rate);
        train.patience = changed.patience.unwrap_or(train.patience);
        train.max_minutes = changed.max_time.or(train.max_minutes);
        config.check()?;
        let corpus = config.data.corpus(config.train.seed)?;
        let checksum = corpus.checksum();
        if self.data.is_none() {
            let expected = "those of its first epoch (--data takes what the file holds now)";
            config.check_data(checksum, run.path(), expected)?;
        }
        config.data_checksum = Some(checksum);
        Ok(Prepared {
            corpus,
            config,
            vocabs,
            resume_from: run.last_checkpoint()?,
            streams: Vec::new(),
            guesses: Vec::new(),
        })
    }
}

impl Prepared {
    /// Converts the training pairs to numbers, and drops their texts.
    fn training(
        &mut self,
        run: &RunDir,
        interrupter: Interrupter,
        log: Log,
        device: &Device,
    ) -> Result<Training<AnyModel, Observer>> {
        let train = self.corpus.train_examples(&self.vocabs);
        self.corpus.forget_train();
        notes_of_rare(&self.vocabs, &train).try_for_each(|note| log.say_to_anyone(note))?;
        Ok(Training {
            model: self.config.init_model(&device.clone().autodiff()),
            train,
            valid: self.corpus.valid_examples(&self.vocabs),
            config: self.config.train.clone(),
            run: run.clone(),
            resume_from: self.resume_from,
            interrupter,
            observer: log.observer(),
        })
    }
}

/// Ctrl-C stops training after the current step; a second Ctrl-C ends the program immediately.
fn on_interrupt(interrupter: &Interrupter) {
    let interrupter = interrupter.clone();
    let handler = move || {
        if interrupter.should_stop() {
            std::process::exit(INTERRUPTED.into());
        }
        interrupter.stop();
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        note(format_args!(
            "note: Ctrl-C will end training in the middle of an epoch ({error})"
        ));
    }
}
