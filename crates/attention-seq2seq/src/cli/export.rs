//! `seq2seq export`

use std::path::PathBuf;

use attention_plot::write_file;
use attention_seq2seq::{Error, Result, Translator};
use clap::Args;

use super::attend::say_saved;
use super::model::Model;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file to write, of safetensors: the parameters in the names and layouts of torch.nn, and in its metadata
    /// settings and vocabularies.
    #[arg(long, value_name = "FILE", default_value = "model.safetensors")]
    output: PathBuf,
    /// Write the Python beside it that loads the file into PyTorch and translates with it; it needs torch and
    /// safetensors.
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
}

impl ExportArgs {
    pub(crate) fn run(self) -> Result<()> {
        let translator = self.model.load()?;
        translator.export(&self.output)?;
        say_saved(&self.output)?;
        let Some(python) = &self.python else {
            return Ok(());
        };
        let written = write_file(python, Translator::PYTHON_LOADER.as_bytes());
        written.map_err(|source| Error::Io {
            action: "write",
            path: python.clone(),
            source,
        })?;
        say_saved(python)
    }
}
