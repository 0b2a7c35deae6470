//! A run whose model was not trained there.

use super::{CheckpointFiles, CheckpointState, RunConfig, RunDir};
use crate::error::Result;
use crate::vocabs::Vocabs;

impl RunDir {
    /// Makes a run of one checkpoint, named by `epoch`, which is its model; a run that is there is replaced. It has no
    /// history.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub(crate) fn create_with(
        &self,
        config: &RunConfig,
        vocabs: &Vocabs,
        epoch: usize,
        files: &CheckpointFiles,
    ) -> Result<()> {
        self.create(config, vocabs)?;
        files.write(self, epoch)?;
        let mut manifest = self.manifest()?;
        manifest.checkpoints = vec![files.checkpoint(epoch, CheckpointState::default())];
        manifest.model = Some(epoch);
        self.save_alone(&manifest)
    }
}
