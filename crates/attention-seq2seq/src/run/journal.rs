//! The checkpoints and metrics of a training, as it writes them.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use super::history::Epoch;
use super::manifest::{Checkpoint, Checksum, Manifest, Part, TrainingClock};
use super::{RunDir, Select};
use crate::error::{Error, Result};

/// The number of newest checkpoints to keep, whatever their loss.
const NEWEST: usize = 2;

/// The writing side of a run folder, which only a training has.
///
/// However a training is stopped, the manifest names only complete files: a file is written before it is named, and
/// removed only when it is no longer named.
pub(crate) struct Journal<'a> {
    run: &'a RunDir,
    manifest: Manifest,
    /// The metric whose best checkpoint is kept.
    select: Select,
}

/// The content of a checkpoint: its files, and the state beside them.
pub(crate) struct CheckpointFiles {
    /// The parameters of the model.
    pub(crate) model: Vec<u8>,
    /// The state of the optimizer.
    pub(crate) optim: Vec<u8>,
    /// The parameters that a step changes, if the model's parameters are their average.
    pub(crate) weights: Option<Vec<u8>>,
    /// The number of consecutive refused steps when the epoch ended.
    pub(crate) refused: usize,
    /// The time and the steps so far, if either is limited.
    pub(crate) clock: Option<TrainingClock>,
}

impl CheckpointFiles {
    /// Writes the files of a checkpoint, which the manifest does not name yet, and returns it.
    fn write(&self, run: &RunDir, epoch: usize) -> Result<Checkpoint> {
        let write = |part: Part, bytes: &[u8]| -> Result<Checksum> {
            run.write(part.file(run.path(), epoch), bytes)?;
            Ok(Checksum::of(bytes))
        };
        let weights = self.weights.as_deref();
        Ok(Checkpoint {
            epoch,
            model: write(Part::Model, &self.model)?,
            optim: write(Part::Optim, &self.optim)?,
            weights: weights.map(|it| write(Part::Weights, it)).transpose()?,
            refused: self.refused,
            clock: self.clock,
        })
    }
}

#[cfg(test)]
impl CheckpointFiles {
    /// The files of a model without an average.
    pub(crate) fn of(model: &[u8], optim: &[u8]) -> Self {
        Self {
            model: model.to_vec(),
            optim: optim.to_vec(),
            weights: None,
            refused: 0,
            clock: None,
        }
    }
}

impl<'a> Journal<'a> {
    /// Continues after `epoch`, or begins, in a folder with or without settings. Later epochs are dropped once
    /// something is written.
    pub(super) fn new(run: &'a RunDir, epoch: Option<usize>, select: Select) -> Result<Self> {
        let mut manifest = match epoch.is_some() || run.exists() {
            true => run.manifest()?,
            false => Manifest::default(),
        };
        manifest.forget_after(epoch.unwrap_or(0));
        Ok(Self {
            run,
            manifest,
            select,
        })
    }

    /// Writes the remainder of an earlier training, before the first epoch is added.
    pub(crate) fn open(&self) -> Result<()> {
        self.run.check_lock()?;
        self.run.make_checkpoints()?;
        self.run.save_alone(&self.manifest)?;
        remove_temporary(self.folder());
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.run.path()
    }

    /// The epochs so far.
    pub(crate) fn history(&self) -> &[Epoch] {
        &self.manifest.history
    }

    /// The content of the files after an epoch.
    pub(crate) fn checkpoint(&self, epoch: usize) -> Result<CheckpointFiles> {
        let checkpoint = self.manifest.checkpoint(epoch).ok_or_else(|| {
            let reason = format!("it has no checkpoint of epoch {epoch} to go on from");
            Error::unusable(self.folder(), reason)
        })?;
        let advised = |error| match error {
            Error::Checkpoint { path, reason } => Error::Checkpoint {
                path,
                reason: format!("{reason}; remove it to go on from an earlier checkpoint"),
            },
            other => other,
        };
        let read = |part: Part, sum| {
            let bytes = read_part(&part.file(self.folder(), epoch), sum);
            bytes.map_err(advised)
        };
        let weights = checkpoint.weights.as_ref();
        let weights = weights.map(|sum| read(Part::Weights, sum));
        Ok(CheckpointFiles {
            model: read(Part::Model, &checkpoint.model)?,
            optim: read(Part::Optim, &checkpoint.optim)?,
            weights: weights.transpose()?,
            refused: checkpoint.refused,
            clock: checkpoint.clock,
        })
    }

    /// The error for a checkpoint file of an epoch that does not fit the model in training.
    pub(crate) fn unusable(&self, part: Part, epoch: usize, reason: impl Display) -> Error {
        Error::unusable(&part.file(self.folder(), epoch), reason)
    }

    /// The time and the steps up to the end of an epoch, if either is limited.
    pub(crate) fn clock(&self, epoch: usize) -> Option<TrainingClock> {
        self.manifest.checkpoint(epoch)?.clock
    }

    /// Adds an epoch and its checkpoint; keeps this checkpoint, the previous, the best, and the newest sound one.
    pub(crate) fn add(&mut self, epoch: Epoch, files: &CheckpointFiles) -> Result<()> {
        let checkpoint = files.write(self.run, epoch.epoch)?;
        let manifest = &mut self.manifest;
        manifest.history.push(epoch);
        manifest.checkpoints.push(checkpoint);
        // It was chosen among other checkpoints.
        manifest.model = None;
        let best = self.select.best(&manifest.history);
        let newest = manifest.checkpoints.len().saturating_sub(NEWEST);
        let sound = manifest.newest_sound();
        let mut index = 0..;
        manifest.checkpoints.retain(|it| {
            let recent = index.next().is_some_and(|index| index >= newest);
            recent || [best, sound].contains(&Some(it.epoch))
        });
        self.run.save_alone(&self.manifest)
    }

    /// Drops the newest checkpoint, the earlier ones with the same parameters, and their epochs, as far as they are not
    /// [sound](Manifest::is_sound): training that continues from them would refuse every step again.
    pub(crate) fn forget_diverged(&mut self) -> Result<()> {
        let manifest = &mut self.manifest;
        let Some(diverged) = manifest.checkpoints.last().map(|it| it.model.clone()) else {
            return Ok(());
        };
        let count = manifest.checkpoints.len();
        while let Some(last) = manifest.checkpoints.last()
            && last.model == diverged
            && !manifest.is_sound(last)
        {
            manifest.checkpoints.pop();
        }
        if manifest.checkpoints.len() == count {
            return Ok(());
        }
        manifest.forget_after(manifest.checkpoints.last().map_or(0, |it| it.epoch));
        self.run.save_alone(&self.manifest)
    }

    /// The newest epoch from which training can continue.
    pub(crate) fn newest(&self) -> Option<usize> {
        self.run.checkpoints_of(&self.manifest).last().copied()
    }
}

/// Reads a file that the manifest names.
///
/// # Errors
/// [`Error::Checkpoint`] if it differs from what was written, [`Error::Io`] if it cannot be read.
pub(super) fn read_part(path: &Path, expected: &Checksum) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| Error::io("read", path, error))?;
    let found = Checksum::of(&bytes);
    if found == *expected {
        return Ok(bytes);
    }
    let reason = format!("it was changed: expected {expected}, found {found}");
    Err(Error::unusable(path, reason))
}

/// Removes files of checkpoints that the manifest does not name. Nothing depends on this: a file that cannot be removed
/// stays, unnamed.
pub(super) fn remove_unnamed(folder: &Path, manifest: &Manifest) {
    let named = |name: &str| {
        let Some(("model" | "optim" | "weights", rest)) = name.split_once('-') else {
            return true;
        };
        let epoch = rest.strip_suffix(".bpk").and_then(|it| it.parse().ok());
        epoch.is_none_or(|epoch: usize| manifest.checkpoint(epoch).is_some())
    };
    remove(&folder.join("checkpoint"), |name| !named(name));
}

/// Removes what killed writers left behind.
pub(super) fn remove_temporary(folder: &Path) {
    for folder in [folder, &folder.join("checkpoint")] {
        remove(folder, |name| {
            name.starts_with(".attention-") && name.ends_with(".tmp")
        });
    }
}

fn remove(folder: &Path, unneeded: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(&unneeded) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
