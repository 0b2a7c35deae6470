//! The arguments of `seq2seq train`.

use std::path::PathBuf;

use clap::Args;

use super::log::LogArgs;
use super::presets::Preset;
use super::settings::{Settings, kept_by_resume};
use crate::machine::Machine;

#[derive(Args)]
pub(crate) struct TrainArgs {
    /// The task: dates (human-written dates to ISO 8601), reverse or copy [default: dates].
    #[arg(conflicts_with = "data")]
    pub(super) task: Option<String>,
    /// A file of pairs instead: source TAB target, one pair a line, or another --input-format; `-` is the standard
    /// input. Spaces and carriage returns around a text are cut off; other white space, such as a no-break space, is a
    /// part of the text.
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    // `conflicts_with` too: clap waives `requires` beside a task, because `--data` would conflict with that.
    /// The pairs to validate on, another file or stream than --data [default: 5 % of the sources of --data].
    #[arg(long, value_name = "FILE", requires = "data", conflicts_with = "task")]
    pub(super) valid: Option<PathBuf>,

    /// Settings for a kind of data; they are printed. Settings given here or in --config win.
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Option<Preset>,
    /// A TOML file of settings, named as the options below are: `batch-size = 128`. Settings given here win.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print all settings as such a file, and train nothing.
    #[arg(long)]
    pub(super) print_config: bool,
    #[command(flatten)]
    pub(super) settings: Settings,

    /// The folder of the run [default: runs/TASK, or runs/FILE without its ending].
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Go on with the run in that folder, from its newest checkpoint and with its settings. --epochs raises the number
    /// of epochs, and the learning rate then follows the longer cosine from its last step; --max-time,
    /// --learning-rate and --patience may change, too.
    #[arg(long, conflicts_with = "overwrite", conflicts_with_all = kept_by_resume())]
    pub(super) resume: bool,
    /// Start anew in a folder that holds a run.
    #[arg(long)]
    pub(super) overwrite: bool,
    #[command(flatten)]
    pub(super) log: LogArgs,
    #[command(flatten)]
    pub(super) machine: Machine,
}
