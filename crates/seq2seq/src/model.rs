//! The model that a command uses.

#[cfg(feature = "serve")]
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use attention_seq2seq::{Result, RunConfig, RunDir, Translator};
use burn::tensor::Device;
use burn_fused_layers::is_in_host_memory;
use clap::Args;

use crate::machine::Machine;
use crate::output::note;

/// A trained model, or several that translate as one.
#[derive(Args)]
pub(crate) struct Model {
    /// The folder of a training: its model is the best epoch, or the newest while training goes on. Several, each after
    /// a --model of its own, translate as one, by the mean of their probabilities.
    #[arg(long = "model", value_name = "DIR", default_value = "runs/dates")]
    models: Vec<PathBuf>,
    /// The most tokens of an output; one that reaches them is cut off, and a note says so [default: the longest target
    /// learned, a quarter more, and two].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_length: Option<usize>,
    #[command(flatten)]
    machine: Machine,
}

impl Model {
    /// The folder of the first model, which represents all.
    pub(crate) fn folder(&self) -> &Path {
        self.models.first().map_or(Path::new(""), PathBuf::as_path)
    }

    pub(crate) fn further(&self) -> impl Iterator<Item = &PathBuf> {
        self.models.iter().skip(1)
    }

    /// The names of the folders, as the name of the model on a page.
    pub(crate) fn name(&self) -> String {
        let names = self.models.iter();
        let names = names.map(|folder| folder.display().to_string());
        names.collect::<Vec<_>>().join(" + ")
    }

    /// The names of the folders without their paths, because clients of a server should not learn where they are.
    #[cfg(feature = "serve")]
    pub(crate) fn name_without_path(&self) -> String {
        let names = self.models.iter().map(|folder| {
            // `.` and paths that end in `..` have no name of their own.
            let resolved = folder.canonicalize().unwrap_or_default();
            let name = folder.file_name().or_else(|| resolved.file_name());
            name.map_or("model".into(), OsStr::to_string_lossy)
                .into_owned()
        });
        names.collect::<Vec<_>>().join(" + ")
    }

    pub(crate) fn load(&self) -> Result<Translator> {
        Ok(self.load_beside(None)?.0)
    }

    /// The model, and another from the folder of a training to compare it with.
    pub(crate) fn load_beside(
        &self,
        other: Option<&Path>,
    ) -> Result<(Translator, Option<Translator>)> {
        // A missing model is reported before a device is opened.
        let runs: Vec<RunDir> = self.models.iter().map(RunDir::new).collect();
        let other = other.map(RunDir::new);
        let configs = runs.iter().chain(&other).map(RunDir::load_config);
        let configs: Vec<RunConfig> = configs.collect::<Result<_>>()?;
        let device = self.machine.open(0)?;
        if is_in_host_memory(&device) {
            let mut configs = configs.iter();
            configs.try_for_each(RunConfig::check_memory_to_load)?;
        }
        let translators = runs.iter().map(|run| load_model(run, &device));
        let translator = Translator::ensemble(translators.collect::<Result<_>>()?)?;
        let other = other.map(|run| self.limited(load_model(&run, &device)?));
        Ok((self.limited(translator)?, other.transpose()?))
    }

    /// A translator whose outputs have at most the requested number of tokens.
    fn limited(&self, translator: Translator) -> Result<Translator> {
        match self.max_length {
            Some(max_length) => translator.with_max_len(max_length),
            None => Ok(translator),
        }
    }
}

/// Loads one model, and tells if its training has not ended.
fn load_model(run: &RunDir, device: &Device) -> Result<Translator> {
    let translator = Translator::load(run, device)?;
    if !translator.is_chosen() {
        note(format_args!(
            "note: the training in {} has not ended; this is its newest checkpoint, of epoch {}",
            run.path().display(),
            translator.epoch(),
        ));
    }
    Ok(translator)
}
