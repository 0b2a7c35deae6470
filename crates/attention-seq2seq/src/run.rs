//! The folder of a training run: its settings, vocabularies, checkpoints and model.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::attention::AttentionKind;
use crate::data::{Pair, Pairs, split_holdout};
use crate::error::{Error, Result};
use crate::file::{load_json, save_json, write_atomic};
use crate::model::Seq2SeqConfig;
use crate::tasks::Task;
use crate::tokens::Tokenization;
use crate::train::TrainConfig;
use crate::tsv::{TsvOptions, load_tsv};
use crate::vocab::Vocab;

/// The version of the settings file.
const FORMAT: u32 = 1;

/// Where the pairs come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataSource {
    /// A generated task.
    Task {
        /// Which.
        task: Task,
        /// The number of pairs to learn from.
        train: usize,
        /// The number of pairs to validate on, of other sources.
        valid: usize,
    },
    /// Files of pairs.
    Tsv {
        /// The pairs to learn from.
        train: PathBuf,
        /// The pairs to validate on; without it, 5 % of the sources of `train` are held out.
        valid: Option<PathBuf>,
        /// Columns and tokens.
        options: TsvOptions,
    },
}

impl DataSource {
    /// Generates or reads the pairs.
    ///
    /// # Errors
    /// If a file is missing, a line of it is not a pair, or there are no pairs to learn from or to validate on.
    pub fn pairs(&self, seed: u64) -> Result<Pairs> {
        let pairs = match self {
            Self::Task { task, train, valid } => task.train_valid(*train, *valid, seed),
            Self::Tsv {
                train,
                valid: Some(valid),
                options,
            } => Pairs {
                train: load_tsv(train, options)?,
                valid: load_tsv(valid, options)?,
            },
            Self::Tsv {
                train,
                valid: None,
                options,
            } => split_holdout(load_tsv(train, options)?, 0.05, seed)?,
        };
        for (what, pairs) in [("training", &pairs.train), ("validation", &pairs.valid)] {
            if pairs.is_empty() {
                let what = format!("there are no {what} pairs");
                return Err(Error::EmptyData { what });
            }
        }
        Ok(pairs)
    }

    /// Whether both are the same task or the same file to learn from.
    pub fn is_same_data(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task { task, .. }, Self::Task { task: other, .. }) => task == other,
            (Self::Tsv { train, .. }, Self::Tsv { train: other, .. }) => train == other,
            _ => false,
        }
    }

    /// How sources and targets are split into tokens.
    pub fn tokens(&self) -> (Tokenization, Tokenization) {
        match self {
            Self::Task { task, .. } => (task.tokenization(), task.tokenization()),
            Self::Tsv { options, .. } => (options.source_tokens, options.target_tokens),
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task { task, .. } => write!(f, "task {task}"),
            Self::Tsv { train, .. } => write!(f, "file {}", train.display()),
        }
    }
}

/// All settings of a run, as saved beside its model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunConfig {
    /// The version of this file.
    pub format: u32,
    /// The attention.
    pub attention: AttentionKind,
    /// The sizes of the model.
    pub model: Seq2SeqConfig,
    /// How it is trained.
    pub train: TrainConfig,
    /// What it is trained on.
    pub data: DataSource,
    /// The number of tokens after which an output is cut off.
    pub max_len: usize,
}

impl RunConfig {
    /// The settings of a new run.
    pub fn new(
        attention: AttentionKind,
        model: Seq2SeqConfig,
        train: TrainConfig,
        data: DataSource,
        pairs: &[Pair],
    ) -> Self {
        let longest = pairs
            .iter()
            .map(|pair| pair.target.len())
            .max()
            .unwrap_or(0);
        Self {
            format: FORMAT,
            attention,
            model,
            train,
            data,
            // Room for an output somewhat longer than any seen.
            max_len: longest + longest / 4 + 2,
        }
    }
}

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// The run in `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file of the model, written when training ends.
    pub fn model_file(&self) -> PathBuf {
        self.0.join("model.bpk")
    }

    /// Whether a run was ever started here.
    pub fn exists(&self) -> bool {
        self.config_file().exists()
    }

    /// Makes the folder and saves settings and vocabularies.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn create(&self, config: &RunConfig, source: &Vocab, target: &Vocab) -> Result<()> {
        fs::create_dir_all(&self.0).map_err(|error| self.io("create", error))?;
        source.save(self.vocab_file("source"))?;
        target.save(self.vocab_file("target"))?;
        self.save_config(config)
    }

    /// Saves the settings alone.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn save_config(&self, config: &RunConfig) -> Result<()> {
        save_json(self.config_file(), config)
    }

    /// Makes room for a new run: removes what an earlier run left in the folder, and nothing else.
    ///
    /// # Errors
    /// If the folder holds no run, but something of a name that a run needs, or the file system refuses.
    pub fn vacate(&self) -> Result<()> {
        if !self.exists() {
            return match ["checkpoint", "train", "valid", "model.bpk"]
                .into_iter()
                .find(|name| self.0.join(name).exists())
            {
                Some(name) => Err(Error::Config {
                    what: format!("the folder {}", self.0.display()),
                    expected: "a folder with room for a run (name another with --out)".to_string(),
                    found: format!("something else's {name:?} in it"),
                }),
                None => Ok(()),
            };
        }
        for folder in ["checkpoint", "train", "valid"] {
            let path = self.0.join(folder);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(|error| self.io("clear", error))?;
            }
        }
        for file in ["model.bpk", "attention.svg", "experiment.log"] {
            let path = self.0.join(file);
            if path.exists() {
                fs::remove_file(&path).map_err(|error| self.io("clear", error))?;
            }
        }
        Ok(())
    }

    /// The settings.
    ///
    /// # Errors
    /// If there is no run here, or its settings are of another version or make no model.
    pub fn load_config(&self) -> Result<RunConfig> {
        if !self.exists() {
            return Err(Error::Checkpoint {
                path: self.0.clone(),
                reason: "no trained model is there; train one first, or name another folder"
                    .to_string(),
            });
        }
        let config: RunConfig = load_json(self.config_file())?;
        if config.format != FORMAT {
            let found = config.format;
            let reason = format!("expected settings of format {FORMAT}, found format {found}");
            return Err(Error::unusable(&self.config_file(), reason));
        }
        config
            .model
            .check()
            .map_err(|error| Error::unusable(&self.config_file(), error))?;
        Ok(config)
    }

    /// The vocabularies of source and target, checked against the sizes of the model.
    ///
    /// # Errors
    /// If a file is missing, malformed or of another size than the model expects.
    pub fn load_vocabs(&self, model: &Seq2SeqConfig) -> Result<(Vocab, Vocab)> {
        let load = |side: &str, expected: usize| {
            let path = self.vocab_file(side);
            let vocab = Vocab::load(&path)?;
            match vocab.len() == expected {
                true => Ok(vocab),
                false => Err(Error::Vocab {
                    path,
                    reason: format!(
                        "the model expects {expected} tokens, the file has {}",
                        vocab.len()
                    ),
                }),
            }
        };
        Ok((
            load("source", model.source_vocab_size)?,
            load("target", model.target_vocab_size)?,
        ))
    }

    /// The epochs whose checkpoint is complete, in order.
    pub fn checkpoints(&self) -> Vec<usize> {
        let files = fs::read_dir(self.0.join("checkpoint"))
            .into_iter()
            .flatten()
            .flatten();
        let mut epochs: Vec<usize> = files
            .filter_map(|file| {
                let name = file.file_name();
                let epoch = name
                    .to_str()?
                    .strip_prefix("model-")?
                    .strip_suffix(".bpk")?;
                epoch.parse().ok()
            })
            .filter(|&epoch| {
                let exists = |part| self.checkpoint_file(part, epoch).exists();
                exists("optim") && exists("scheduler")
            })
            .collect();
        epochs.sort_unstable();
        epochs
    }

    /// Keeps one epoch's checkpoint as the model.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn keep_model(&self, epoch: usize) -> Result<()> {
        let bytes = fs::read(self.checkpoint_file("model", epoch));
        write_atomic(
            self.model_file(),
            &bytes.map_err(|error| self.io("read", error))?,
        )
    }

    /// The file of a checkpoint's part: "model", "optim" or "scheduler".
    pub fn checkpoint_file(&self, part: &str, epoch: usize) -> PathBuf {
        self.0
            .join("checkpoint")
            .join(format!("{part}-{epoch}.bpk"))
    }

    fn config_file(&self) -> PathBuf {
        self.0.join("run.json")
    }

    fn vocab_file(&self, side: &str) -> PathBuf {
        self.0.join(format!("{side}.vocab.json"))
    }

    fn io(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::Io {
            action,
            path: self.0.clone(),
            source,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
