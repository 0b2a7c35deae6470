//! The end of the processes that train together.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use attention_seq2seq::train::Communicator;
use attention_seq2seq::{Error, Result};

use crate::output::{FAILED, is_closed_output, report};

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
