//! The folder of a training run.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::history::Epoch;
use super::journal::{Journal, read_part, remove_unnamed};
use super::lock::LockFile;
use super::manifest::{Manifest, NAME, Part};
use super::{RunConfig, RunLock, Select};
use crate::error::{Error, Result};
use crate::file::write_file_if;
use crate::model::ModelConfig;
use crate::text::vocab::Vocabs;

/// The folder of a training run: settings, vocabularies, metrics and checkpoints, including the model.
///
/// | file | content |
/// | --- | --- |
/// | `run.json` | [`RunConfig`], metrics, checkpoints with checksums, the model's epoch, [`Vocabs`] |
/// | `checkpoint/model-E.bpk`, `optim-E.bpk` | model and optimizer after epoch `E` |
/// | `attention.svg` | the attention weights of a validation pair, drawn by the program |
/// | `pairs-CRC32.tsv` | pairs that came through a pipe |
/// | `lock` | nothing; writers to the folder hold a [lock](RunDir::lock) on it |
///
/// `run.json` is replaced by a single rename, and names only complete files: a run that is killed at any point, or
/// whose disk is full, is left as of its last complete epoch. Reading a file that was changed since is an error.
///
/// **The model** is the checkpoint that [`keep_best`](Self::keep_best) chose, as the program does at the end of
/// training. Before that, and when training goes on, it is the newest checkpoint.
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
/// assert!(run.checkpoints()?.is_empty());
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The lock of this process on the folder, while it is held; it must still be valid whenever something is written.
    lock: Arc<Mutex<Weak<LockFile>>>,
}

impl RunDir {
    /// The run in `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lock: Arc::default(),
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a run was ever begun in this folder.
    pub fn exists(&self) -> bool {
        self.config_file().exists()
    }

    /// Creates the folder, if necessary, and locks it against other writers. [`Training`](crate::Training) does not
    /// lock: callers that make room for a run, begin or resume one must hold the lock until it has ended. While it is
    /// held, this `RunDir` and its clones refuse to write once somebody has removed or replaced the file `lock`, or
    /// moved the folder, with an [`Error::Config`].
    ///
    /// # Errors
    /// [`Error::Config`] if another process, or another lock of this one, holds it; [`Error::Io`] if the file system
    /// refuses.
    pub fn lock(&self) -> Result<RunLock> {
        self.make()?;
        let lock = RunLock::take(&self.path)?;
        *self.held() = Arc::downgrade(lock.file());
        Ok(lock)
    }

    fn held(&self) -> MutexGuard<'_, Weak<LockFile>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a lock that is held, before something is written.
    pub(super) fn check_lock(&self) -> Result<()> {
        let held = self.held().upgrade();
        held.map_or(Ok(()), |lock| lock.check())
    }

    /// Writes a file in the folder; if a lock is held, checks it both before and when the whole file is on disk.
    ///
    /// # Errors
    /// [`Error::Config`] if the lock is lost, [`Error::Io`] if the file system refuses.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        self.check_lock()?;
        let may_replace = || self.check_lock().map_err(io::Error::other);
        write_file_if(path, bytes, may_replace).or_else(|error| {
            // If the folder was moved away, this explains the failure.
            self.check_lock()?;
            Err(error)
        })
    }

    /// Replaces the manifest.
    fn save(&self, manifest: &Manifest) -> Result<()> {
        let path = self.config_file();
        self.write(&path, manifest.text(&path)?.as_bytes())
    }

    /// Replaces the manifest, then removes the files of checkpoints that it does not name.
    pub(super) fn save_alone(&self, manifest: &Manifest) -> Result<()> {
        self.save(manifest)?;
        self.check_lock()?;
        remove_unnamed(&self.path, manifest);
        Ok(())
    }

    /// Creates the folder, if necessary, and begins a run there, with settings and vocabularies. An existing run is
    /// replaced: it stays complete until the new one is, and then its files, and no others, are removed.
    ///
    /// # Errors
    /// As [`check_room`](Self::check_room); [`Error::Io`] if the file system refuses.
    pub fn create(&self, config: &RunConfig, vocabs: &Vocabs) -> Result<()> {
        self.check_room()?;
        self.check_lock()?;
        self.make()?;
        self.check_writable()?;
        self.save_alone(&Manifest {
            settings: Some(self.settings(config)?),
            vocabs: Some(vocabs.clone()),
            ..Manifest::default()
        })?;
        self.remove(OsStr::new("attention.svg"))?;
        self.remove_streams(&config.data)
    }

    /// Refuses a folder for checkpoints that cannot be written, before an existing run is replaced.
    fn check_writable(&self) -> Result<()> {
        let probe = self.make_checkpoints()?.join(".attention-probe.tmp");
        self.write(&probe, b"")?;
        fs::remove_file(&probe).map_err(|error| Error::io("clear", &probe, error))
    }

    /// Creates the folder for checkpoints, if necessary, and returns its path.
    pub(super) fn make_checkpoints(&self) -> Result<PathBuf> {
        let folder = self.path.join("checkpoint");
        fs::create_dir_all(&folder).map_err(|error| Error::io("create", &folder, error))?;
        Ok(folder)
    }

    /// Replaces the saved settings.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config); [`Error::Io`] if the file system refuses.
    pub fn save_config(&self, config: &RunConfig) -> Result<()> {
        let mut manifest = self.manifest()?;
        manifest.settings = Some(self.settings(config)?);
        self.save(&manifest)
    }

    /// Checks that the folder can be used for a run.
    ///
    /// # Errors
    /// [`Error::Config`] if the folder has no run, but an entry with a name that a run needs.
    pub fn check_room(&self) -> Result<()> {
        if self.exists() {
            return Ok(());
        }
        // A process that was killed before its run began may have left an empty folder for checkpoints.
        let is_free = |name: &str| {
            let path = self.path.join(name);
            let Ok(mut files) = fs::read_dir(&path) else {
                return !path.exists();
            };
            let temporary = |name: &OsStr| name.to_string_lossy().starts_with(".attention-");
            files.all(|file| file.is_ok_and(|file| temporary(&file.file_name())))
        };
        let names = ["checkpoint", "attention.svg"];
        let Some(name) = names.into_iter().find(|name| !is_free(name)) else {
            return Ok(());
        };
        let what = format!("the folder {}", self.path.display());
        let expected = "a folder with room for a run (name another with --out)";
        let found = format!("something else's {name:?} in it");
        Err(Error::config(what, expected, found))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &OsStr) -> Result<()> {
        self.check_lock()?;
        let path = self.path.join(name);
        fs::remove_file(&path).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(Error::io("clear", &path, error)),
        })
    }

    /// Loads the settings.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is no run here, its file was changed or has another format, or its settings make
    /// no model; [`Error::Json`] or [`Error::Io`] if the file cannot be read.
    pub fn load_config(&self) -> Result<RunConfig> {
        self.config_of(&self.manifest()?)
    }

    /// Loads the vocabularies of source and target, whose sizes must be those of the model.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config); [`Error::Checkpoint`] for vocabularies of other sizes.
    pub fn load_vocabs(&self, model: &ModelConfig) -> Result<Vocabs> {
        self.vocabs_of(&self.manifest()?, model)
    }

    /// The settings in a manifest.
    pub(crate) fn config_of(&self, manifest: &Manifest) -> Result<RunConfig> {
        let settings = manifest.settings.clone();
        let mut settings = settings.ok_or_else(|| self.no_settings())?;
        self.resolve_streams(&mut settings.data)?;
        Ok(settings)
    }

    pub(super) fn absolute(&self) -> Result<PathBuf> {
        std::path::absolute(&self.path).map_err(|error| Error::io("find", &self.path, error))
    }

    /// The vocabularies in a manifest.
    pub(crate) fn vocabs_of(&self, manifest: &Manifest, model: &ModelConfig) -> Result<Vocabs> {
        let vocabs = manifest.vocabs.clone().ok_or_else(|| self.no_settings())?;
        for (side, found, expected) in [
            ("source", vocabs.source.len(), model.source_vocab_size()),
            ("target", vocabs.target.len(), model.target_vocab_size()),
        ] {
            if found != expected {
                let reason = format!(
                    "the model expects {expected} {side} tokens, the vocabulary has {found}"
                );
                return Err(Error::unusable(&self.config_file(), reason));
            }
        }
        Ok(vocabs)
    }

    /// The metrics of the epochs so far, in order.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config).
    pub fn history(&self) -> Result<Vec<Epoch>> {
        Ok(self.manifest()?.history)
    }

    /// The epochs from which training can continue, in order: `run.json` names their checkpoints, and the files exist.
    /// Empty if there is no run.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config).
    pub fn checkpoints(&self) -> Result<Vec<usize>> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        Ok(self.checkpoints_of(&self.manifest()?))
    }

    /// The epochs in a manifest from which training can continue.
    pub(crate) fn checkpoints_of(&self, manifest: &Manifest) -> Vec<usize> {
        let checkpoints = manifest.checkpoints.iter();
        // A file that cannot be examined gives an error when it is read.
        let is_there = |file: PathBuf| file.try_exists().unwrap_or(true);
        let whole = checkpoints.filter(|it| it.files(&self.path).all(is_there));
        whole.map(|it| it.epoch).collect()
    }

    /// The epoch to continue from: the newest of [`checkpoints`](Self::checkpoints); `None` if none was trained yet.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config); [`Error::Checkpoint`] if epochs were trained, but the files of their
    /// checkpoints are missing.
    pub fn last_checkpoint(&self) -> Result<Option<usize>> {
        let manifest = self.manifest()?;
        let newest = self.checkpoints_of(&manifest).last().copied();
        let begun = !manifest.history.is_empty() || !manifest.checkpoints.is_empty();
        if newest.is_none() && begun {
            let reason = "there is no checkpoint to go on from, though epochs were trained: bring its files back, or \
                          begin anew with --overwrite";
            return Err(Error::unusable(&self.path.join("checkpoint"), reason));
        }
        Ok(newest)
    }

    /// The file of the model's parameters, and its epoch, if there is a checkpoint: a file of Burn that
    /// `Module::load_file` reads into a [`Trainee`](crate::Trainee).
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config).
    pub fn model_file(&self) -> Result<Option<(PathBuf, usize)>> {
        let epoch = self.model_of(&self.manifest()?);
        Ok(epoch.map(|epoch| (Part::Model.file(&self.path, epoch), epoch)))
    }

    /// Whether the model was chosen, as [`keep_best`](Self::keep_best) does at the end of training; otherwise it is the
    /// newest checkpoint.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config).
    pub fn is_chosen(&self) -> Result<bool> {
        Ok(self.manifest()?.model.is_some())
    }

    /// The epoch of the model: the chosen one, or the newest.
    pub(crate) fn model_of(&self, manifest: &Manifest) -> Option<usize> {
        let newest = || self.checkpoints_of(manifest).last().copied();
        manifest.model.or_else(newest)
    }

    /// The content of the file of the model after an epoch.
    pub(crate) fn read_model(&self, manifest: &Manifest, epoch: usize) -> Result<Vec<u8>> {
        let path = Part::Model.file(&self.path, epoch);
        let unnamed = || Error::unusable(&path, format!("{NAME} does not name it"));
        let checkpoint = manifest.checkpoint(epoch).ok_or_else(unnamed)?;
        read_part(&path, &checkpoint.model)
    }

    /// Makes the best checkpoint the model, and returns its epoch; `None` if there is no checkpoint.
    ///
    /// The best checkpoint is best by the validation metric that the training [selects](Select::best): the one by which
    /// it kept checkpoints, and stopped.
    ///
    /// # Errors
    /// As [`load_config`](Self::load_config); [`Error::Io`] if the choice cannot be written.
    pub fn keep_best(&self) -> Result<Option<usize>> {
        let mut manifest = self.manifest()?;
        let select = self.config_of(&manifest)?.train.select;
        let there = self.checkpoints_of(&manifest);
        let history = manifest.history.iter().copied();
        let of_there: Vec<Epoch> = history.filter(|it| there.contains(&it.epoch)).collect();
        let best = select.best(&of_there).or(there.last().copied());
        if best.is_some() {
            manifest.model = best;
            self.save(&manifest)?;
        }
        Ok(best)
    }

    /// A journal for training that begins, or continues after an epoch.
    pub(crate) fn journal(&self, after: Option<usize>, select: Select) -> Result<Journal<'_>> {
        Journal::new(self, after, select)
    }

    /// The manifest as it is now.
    pub(crate) fn manifest(&self) -> Result<Manifest> {
        if !self.exists() {
            let reason = "no trained model is there; train one first, or name another folder";
            return Err(Error::unusable(&self.path, reason));
        }
        Manifest::load(&self.path)
    }

    fn no_settings(&self) -> Error {
        let reason = "it has no settings: a model of one's own was trained there";
        Error::unusable(&self.path, reason)
    }

    pub(super) fn make(&self) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(|error| Error::io("create", &self.path, error))
    }

    fn config_file(&self) -> PathBuf {
        self.path.join(NAME)
    }
}

#[cfg(test)]
mod tests;
