//! The folder of a training run: its settings, vocabularies, checkpoints and model.

use std::fs;
use std::path::{Path, PathBuf};

use super::config::{FORMAT, Version};
use super::{RunConfig, RunLock};
use crate::error::{Error, Result};
use crate::file::{load_json, save_json, write_atomic};
use crate::model::Seq2SeqConfig;
use crate::vocab::Vocab;
use crate::vocabs::Vocabs;

/// The folder of a training run: settings, vocabularies, checkpoints, metrics and, in the end, the model.
///
/// | file | content |
/// | --- | --- |
/// | `run.json` | the settings, [`RunConfig`] |
/// | `source.vocab.json`, `target.vocab.json` | the [`Vocabs`] |
/// | `checkpoint/model-E.bpk`, `optim-E.bpk`, `scheduler-E.bpk` | the checkpoint after epoch `E` |
/// | `train/`, `valid/`, `experiment.log` | metrics and log of `burn-train` |
/// | `model.bpk` | the model, once a checkpoint was kept as such |
/// | `lock` | nothing; who writes into the folder has it [locked](RunDir::lock) |
///
/// ```
/// use attention_seq2seq::{DataSource, RunConfig, RunDir, Seq2SeqConfig, Task, Vocabs};
///
/// let data = DataSource::Task { task: Task::Copy, train: 100, valid: 10 };
/// let pairs = data.pairs(1)?;
/// let vocabs = Vocabs::build(&pairs.train);
/// let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len());
///
/// let folder = tempfile::tempdir().unwrap();
/// let run = RunDir::new(folder.path().join("copy"));
/// run.create(&RunConfig::new(model, data, &pairs.train), &vocabs)?;
/// assert_eq!(run.load_config()?.train.epochs, 3);
/// assert!(run.checkpoints().is_empty());
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// The run in `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a run was ever begun here.
    pub fn exists(&self) -> bool {
        self.config_file().exists()
    }

    /// Makes the folder, if need be, and keeps others from writing into it. [`Training`](crate::Training) does not
    /// lock: who makes room for a run, begins or resumes one holds the lock until it has ended.
    ///
    /// # Errors
    /// [`Error::Config`] if another process, or another lock of this one, has it; [`Error::Io`] if the file system
    /// refuses.
    pub fn lock(&self) -> Result<RunLock> {
        fs::create_dir_all(&self.0).map_err(|error| self.io("create", error))?;
        RunLock::take(&self.0)
    }

    /// Makes the folder, and saves settings and vocabularies. What an earlier run left is removed by
    /// [`vacate`](Self::vacate).
    ///
    /// # Errors
    /// [`Error::Io`] if the file system refuses.
    pub fn create(&self, config: &RunConfig, vocabs: &Vocabs) -> Result<()> {
        fs::create_dir_all(&self.0).map_err(|error| self.io("create", error))?;
        vocabs.source.save(self.vocab_file("source"))?;
        vocabs.target.save(self.vocab_file("target"))?;
        self.save_config(config)
    }

    /// Saves the settings alone.
    ///
    /// # Errors
    /// [`Error::Io`] if the file system refuses.
    pub fn save_config(&self, config: &RunConfig) -> Result<()> {
        save_json(self.config_file(), config)
    }

    /// Checks that a run may have the folder.
    ///
    /// # Errors
    /// [`Error::Config`] if the folder holds no run, but something of a name that a run needs.
    pub fn check_room(&self) -> Result<()> {
        if self.exists() {
            return Ok(());
        }
        let foreign = ["checkpoint", "train", "valid", "model.bpk"]
            .into_iter()
            .find(|name| self.0.join(name).exists());
        foreign.map_or(Ok(()), |name| {
            Err(Error::Config {
                what: format!("the folder {}", self.0.display()),
                expected: "a folder with room for a run (name another with --out)".to_string(),
                found: format!("something else's {name:?} in it"),
            })
        })
    }

    /// Makes room for a new run: removes what an earlier run left in the folder, and nothing else.
    ///
    /// # Errors
    /// As [`check_room`](Self::check_room); [`Error::Io`] if the file system refuses.
    pub fn vacate(&self) -> Result<()> {
        self.check_room()?;
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

    /// Loads the settings.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is no run here, or its settings are of another version or make no model;
    /// [`Error::Json`] or [`Error::Io`] if the file cannot be read.
    pub fn load_config(&self) -> Result<RunConfig> {
        if !self.exists() {
            return Err(Error::Checkpoint {
                path: self.0.clone(),
                reason: "no trained model is there; train one first, or name another folder"
                    .to_string(),
            });
        }
        // By itself: another version may have other settings.
        let Version { format } = load_json(self.config_file())?;
        if format != FORMAT {
            let reason = format!(
                "expected settings of format {FORMAT}, found format {format}: train again with this version"
            );
            return Err(Error::unusable(&self.config_file(), reason));
        }
        let config: RunConfig = load_json(self.config_file())?;
        config
            .check()
            .map_err(|error| Error::unusable(&self.config_file(), error))?;
        Ok(config)
    }

    /// Loads the vocabularies of source and target, which must be of the sizes of the model.
    ///
    /// # Errors
    /// [`Error::Vocab`] if a file holds no vocabulary or one of another size; [`Error::Json`] or [`Error::Io`] if it
    /// cannot be read.
    pub fn load_vocabs(&self, model: &Seq2SeqConfig) -> Result<Vocabs> {
        let load = |side: &str, expected: usize| {
            let path = self.vocab_file(side);
            let vocab = Vocab::load(&path)?;
            if vocab.len() != expected {
                let found = vocab.len();
                let reason = format!("the model expects {expected} tokens, the file has {found}");
                return Err(Error::Vocab { path, reason });
            }
            Ok(vocab)
        };
        Ok(Vocabs {
            source: load("source", model.source_vocab_size)?,
            target: load("target", model.target_vocab_size)?,
        })
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
    /// [`Error::Io`] if the file system refuses.
    pub(crate) fn keep_model(&self, epoch: usize) -> Result<()> {
        let bytes = fs::read(self.checkpoint_file("model", epoch));
        write_atomic(
            self.model_file(),
            &bytes.map_err(|error| self.io("read", error))?,
        )
    }

    /// The file of a checkpoint's part: "model", "optim" or "scheduler".
    pub(crate) fn checkpoint_file(&self, part: &str, epoch: usize) -> PathBuf {
        self.0
            .join("checkpoint")
            .join(format!("{part}-{epoch}.bpk"))
    }

    /// The file of the model, written when training ends.
    pub(crate) fn model_file(&self) -> PathBuf {
        self.0.join("model.bpk")
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
