//! A run whose model was not trained there.

use super::manifest::{Checkpoint, Checksum, model_file, optim_file};
use super::{RunConfig, RunDir};
use crate::error::Result;
use crate::vocabs::Vocabs;

/// The content of a checkpoint's files.
pub(crate) struct CheckpointFiles {
    /// The epoch that it is named by.
    pub(crate) epoch: usize,
    pub(crate) model: Vec<u8>,
    pub(crate) optim: Vec<u8>,
}

impl RunDir {
    /// Makes a run of one checkpoint, which is its model; a run that is there is replaced. It has no history.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub(crate) fn create_with(
        &self,
        config: &RunConfig,
        vocabs: &Vocabs,
        files: &CheckpointFiles,
    ) -> Result<()> {
        self.create(config, vocabs)?;
        let CheckpointFiles {
            epoch,
            model,
            optim,
        } = files;
        self.write(model_file(self.path(), *epoch), model)?;
        self.write(optim_file(self.path(), *epoch), optim)?;
        let mut manifest = self.manifest()?;
        manifest.checkpoints = vec![Checkpoint {
            epoch: *epoch,
            model: Checksum::of(model),
            optim: Checksum::of(optim),
            refused: 0,
        }];
        manifest.model = Some(*epoch);
        self.save_alone(&manifest)
    }
}
