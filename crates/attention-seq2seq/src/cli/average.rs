//! `seq2seq average`

use std::path::PathBuf;

use attention_seq2seq::{CheckpointOfRun, Error, Result, RunDir, average_checkpoints};
use clap::Args;

use super::output::say;

#[derive(Args)]
pub(crate) struct AverageArgs {
    /// The folders of trainings, of models of one shape with the same vocabularies: of one, all checkpoints that it
    /// keeps are averaged; of several, the model of each.
    #[arg(value_name = "DIR", required = true)]
    runs: Vec<PathBuf>,
    /// The epochs of one training whose checkpoints are averaged, such as 8,9,10 [default: all that are kept].
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    epochs: Vec<usize>,
    /// The folder of the mean, which every command reads as the run of its own.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the run in that folder.
    #[arg(long)]
    overwrite: bool,
}

impl AverageArgs {
    pub(crate) fn run(self) -> Result<()> {
        let runs: Vec<RunDir> = self.runs.iter().map(RunDir::new).collect();
        let checkpoints = self.checkpoints(&runs)?;
        // A run that is not there is an error before a folder is made.
        for run in &runs {
            run.load_config()?;
        }
        let out = RunDir::new(&self.out);
        let is_source = |run: &PathBuf| match (run.canonicalize(), self.out.canonicalize()) {
            (Ok(run), Ok(out)) => run == out,
            _ => false,
        };
        if self.runs.iter().any(is_source) {
            return Err(Error::Config {
                what: "--out".to_string(),
                expected: "another folder than those that are averaged".to_string(),
                found: out.path().display().to_string(),
            });
        }
        let _lock = out.lock()?;
        if out.exists() && !self.overwrite {
            return Err(Error::Config {
                what: format!("the folder {}", out.path().display()),
                expected: "a folder without a run (name another with --out, or add --overwrite)"
                    .to_string(),
                found: "a run".to_string(),
            });
        }
        average_checkpoints(&checkpoints, &out)?;
        let count = checkpoints.len();
        let models = if count == 1 {
            "checkpoint"
        } else {
            "checkpoints"
        };
        say(format_args!(
            "the mean of {count} {models} is in {}",
            out.path().display()
        ))
    }

    fn checkpoints(&self, runs: &[RunDir]) -> Result<Vec<CheckpointOfRun>> {
        let [run] = runs else {
            if !self.epochs.is_empty() {
                return Err(Error::Config {
                    what: "--epochs".to_string(),
                    expected: "the folder of one training".to_string(),
                    found: format!("{} folders", runs.len()),
                });
            }
            let checkpoint = |run: &RunDir| CheckpointOfRun {
                run: run.clone(),
                epoch: None,
            };
            return Ok(runs.iter().map(checkpoint).collect());
        };
        // A run that is not there is an error, not one without checkpoints.
        run.load_config()?;
        let kept = run.checkpoints()?;
        if let Some(epoch) = self.epochs.iter().find(|epoch| !kept.contains(epoch)) {
            let kept: Vec<String> = kept.iter().map(usize::to_string).collect();
            return Err(Error::Config {
                what: "--epochs".to_string(),
                expected: format!("epochs whose checkpoints are kept ({})", kept.join(", ")),
                found: epoch.to_string(),
            });
        }
        let mut epochs = match self.epochs.is_empty() {
            true => kept,
            false => self.epochs.clone(),
        };
        epochs.sort_unstable();
        epochs.dedup();
        let checkpoint = |&epoch: &usize| CheckpointOfRun {
            run: run.clone(),
            epoch: Some(epoch),
        };
        Ok(epochs.iter().map(checkpoint).collect())
    }
}
