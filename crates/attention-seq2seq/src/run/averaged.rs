//! A run whose model was not trained there.

use super::manifest::{Checkpoint, Checksum, model_file, optim_file, weights_file};
use super::{CheckpointFiles, RunConfig, RunDir};
use crate::error::Result;
use crate::vocabs::Vocabs;

impl RunDir {
    /// Makes a run of one checkpoint, which is its model and named by `epoch`; a run that is there is replaced. It has
    /// no history.
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
        let CheckpointFiles {
            model,
            optim,
            weights,
        } = files;
        self.write(model_file(self.path(), epoch), model)?;
        self.write(optim_file(self.path(), epoch), optim)?;
        if let Some(weights) = weights {
            self.write(weights_file(self.path(), epoch), weights)?;
        }
        let mut manifest = self.manifest()?;
        manifest.checkpoints = vec![Checkpoint {
            epoch,
            model: Checksum::of(model),
            optim: Checksum::of(optim),
            weights: weights.as_deref().map(Checksum::of),
            refused: 0,
            seconds: None,
        }];
        manifest.model = Some(epoch);
        self.save_alone(&manifest)
    }
}
