//! A run whose model was not trained there.

use super::{CheckpointFiles, CheckpointState, Manifest, RunConfig, RunDir};
use crate::error::Result;
use crate::vocabs::Vocabs;

impl RunDir {
    /// Makes a run of one checkpoint, which is its model, and has no history. It is named by `epoch`, or by a later one
    /// where a run that is there has a checkpoint of that name: this run is whole until it is replaced.
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
        self.make_writable()?;
        let before = self.checkpoints().unwrap_or_default();
        let is_taken = before.contains(&epoch);
        let last = before.last().copied().filter(|_| is_taken);
        let epoch = last.map_or(epoch, |last| last + 1);
        files.write(self, epoch)?;
        let checkpoint = files.checkpoint(epoch, CheckpointState::default());
        self.replace(
            config,
            Manifest {
                vocabs: Some(vocabs.clone()),
                checkpoints: vec![checkpoint],
                model: Some(epoch),
                ..Manifest::default()
            },
        )
    }
}
