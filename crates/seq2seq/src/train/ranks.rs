//! The processes that train together, where a launcher started several: rank 0 prints, validates and writes.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use attention_seq2seq::train::{Communicator, launched_processes};
use attention_seq2seq::{Error, Result};

use crate::output::{FAILED, is_closed_output, leave_notes_to_another, report};

pub(super) fn start() -> Result<Box<dyn Communicator>> {
    let ranks = launched_processes()?;
    if !ranks.is_first() {
        leave_notes_to_another();
    }
    Ok(ranks)
}

/// Ends all processes after an error of this one: they may wait for it.
pub(super) fn end(ranks: &dyn Communicator, end: Result<ExitCode>) -> Result<ExitCode> {
    let error = match end {
        Err(error) if ranks.size() > 1 && !is_closed_output(&error) => error,
        end => return end,
    };
    match error {
        Error::RankDiffers { .. } if ranks.is_first() => report(error),
        // Another process reports it, and ends this one. Where this one ended by itself at the same time, `mpirun`
        // (Open MPI 4.1) would now and then wait for ever.
        Error::RankFailed { .. } | Error::RankDiffers { .. } => sleep(Duration::from_secs(5)),
        _ => report(format_args!("rank {}: {error}", ranks.rank())),
    }
    ranks.abort(FAILED)
}
