//! `seq2seq export`

use std::path::PathBuf;

use attention_seq2seq::Result;
use clap::Args;

use crate::attend::saved;
use crate::model::Model;
use crate::output::say;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file to write, of safetensors: the parameters in the names and layouts of torch.nn, and in its metadata
    /// settings and vocabularies.
    #[arg(long, value_name = "FILE", default_value = "model.safetensors")]
    output: PathBuf,
    #[command(flatten)]
    model: Model,
}

impl ExportArgs {
    pub(crate) fn run(self) -> Result<()> {
        self.model.load()?.export(&self.output)?;
        say(saved(&self.output))
    }
}
