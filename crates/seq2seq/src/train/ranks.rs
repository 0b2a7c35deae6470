//! The processes that train together, where `mpirun` started several.

use std::process::ExitCode;
use std::time::Duration;

#[cfg(feature = "mpi")]
use attention_seq2seq::train::Mpi;
use attention_seq2seq::train::{Communicator, agree, launched_processes};
use attention_seq2seq::{Error, Result};

use crate::output::{FAILED, is_closed_output, leave_notes_to_another, report};

/// The time in which the process that reports an error ends the others.
const TO_BE_ENDED: Duration = Duration::from_secs(5);

/// This process among those that train together: rank 0 prints, validates and writes.
pub(super) struct Ranks {
    #[cfg(feature = "mpi")]
    mpi: Option<Mpi>,
}

impl Ranks {
    /// Starts MPI, if a launcher started several processes.
    pub(super) fn start() -> Result<Self> {
        let are_several = launched_processes() > 1;
        #[cfg(feature = "mpi")]
        let ranks = Self {
            mpi: are_several.then(Mpi::start).transpose()?,
        };
        #[cfg(not(feature = "mpi"))]
        let ranks = if are_several {
            let expected = "one with the feature `mpi`, to train on several processes";
            return Err(Error::config("this build", expected, "one without"));
        } else {
            Self {}
        };
        if !ranks.is_first() {
            leave_notes_to_another();
        }
        Ok(ranks)
    }

    pub(super) fn communicator(&self) -> Option<&dyn Communicator> {
        #[cfg(feature = "mpi")]
        return self.mpi.as_ref().map(|mpi| mpi as &dyn Communicator);
        #[cfg(not(feature = "mpi"))]
        None
    }

    pub(super) fn is_first(&self) -> bool {
        self.communicator().is_none_or(|it| it.rank() == 0)
    }

    /// The number of the GPU of this process, where each has its own.
    pub(super) fn gpu(&self) -> Option<usize> {
        #[cfg(feature = "mpi")]
        return self.mpi.as_ref().map(Mpi::local_rank);
        #[cfg(not(feature = "mpi"))]
        None
    }

    /// The result of work that each process does for itself: where one failed, all do.
    pub(super) fn agree<T>(&self, own: Result<T>) -> Result<T> {
        match self.communicator() {
            Some(communicator) => agree(communicator, own),
            None => own,
        }
    }

    /// Ends this process, and after an error of its own the others, which may wait for it.
    pub(super) fn end(self, end: Result<ExitCode>) -> Result<ExitCode> {
        let Some(communicator) = self.communicator() else {
            return end;
        };
        match end {
            Err(error) if !is_closed_output(&error) => {
                match error {
                    Error::RankDiffers { .. } if self.is_first() => report(&error),
                    // Another process reports it, and ends this one. Where this one ended by itself at the same time,
                    // `mpirun` (Open MPI 4.1) would now and then wait for ever.
                    Error::RankFailed { .. } | Error::RankDiffers { .. } => {
                        std::thread::sleep(TO_BE_ENDED);
                    }
                    _ => report(&Error::Rank {
                        rank: communicator.rank(),
                        source: Box::new(error),
                    }),
                }
                #[cfg(feature = "mpi")]
                if let Some(mpi) = &self.mpi {
                    mpi.abort(FAILED);
                }
                Ok(ExitCode::from(FAILED))
            }
            end => end,
        }
    }
}
