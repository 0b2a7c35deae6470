//! The processes that a launcher started.

use super::communicator::Communicator;
#[cfg(feature = "mpi")]
use super::mpi::Mpi;
use crate::error::{Error, Result};

/// The place of this process among those started by an MPI launcher, according to its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The number of this process, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
}

impl Launched {
    /// The place of this process, found without MPI; `None` if no launcher started it.
    pub fn of_environment() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        // Open MPI; MPICH, Intel MPI and Slurm's PMI; Slurm's PMIx, whose programs need not use MPI.
        let [rank, size] = [
            ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
            ["PMI_RANK", "PMI_SIZE"],
            ["PMIX_RANK", "SLURM_NTASKS"],
        ]
        .into_iter()
        .find_map(|[rank, size]| Some([number(rank)?, number(size)?]))?;
        Some(Self { rank, size })
    }
}

/// The processes that an MPI launcher (`mpirun`, `srun`) started; without one, this process alone.
///
/// MPI ends all processes when one dies: `mpirun` and `mpiexec` by default, `srun` with `--kill-on-bad-exit`. A process
/// that panics ends all others.
///
/// # Errors
/// [`Error::Config`](crate::Error::Config) if there are several and this build lacks the feature `mpi`, or MPI has
/// already been started, cannot be called from threads in turn, or connects fewer processes than the launcher started.
pub fn launched_processes() -> Result<Box<dyn Communicator>> {
    match Launched::of_environment().map_or(1, |launched| launched.size) {
        0 | 1 => Ok(Box::new(())),
        #[cfg(feature = "mpi")]
        size => Ok(Box::new(Mpi::start(size)?)),
        #[cfg(not(feature = "mpi"))]
        _ => {
            let expected = "one with the feature `mpi`, to train on several processes";
            Err(Error::config("this build", expected, "one without"))
        }
    }
}

/// Runs `work` on [`launched_processes`].
///
/// After an error in one process all processes end, because the others may be waiting for it. Only in the failing
/// process, `report` prints the error, a line that begins with the rank, and returns the exit code of all.
///
/// # Errors
/// The errors of [`launched_processes`], and those of `work` in a single process. If several processes were launched
/// for a build without the feature `mpi`, the first returns the error, and the others end.
pub fn with_launched<T>(
    work: impl FnOnce(&dyn Communicator) -> Result<T>,
    report: impl FnOnce(&Error, &str) -> u8,
) -> Result<T> {
    let ranks = launched_processes().inspect_err(|_| {
        if cfg!(not(feature = "mpi")) && Launched::of_environment().is_some_and(|it| it.rank > 0) {
            std::process::exit(0);
        }
    })?;
    let error = match work(&*ranks) {
        Err(error) if ranks.size() > 1 => error,
        end => return end,
    };
    let line = match error {
        Error::RankDiffers { .. } if ranks.is_first() => error.to_string(),
        // Another process reports the error, and ends this one, which waits for a message that never comes. If this one
        // ended by itself at the same time, `mpirun` (Open MPI 4.1) would occasionally hang.
        Error::RankFailed { .. } | Error::RankDiffers { .. } => {
            let _ = ranks.all_reduce_sum(&mut [0.0]);
            ranks.abort(2)
        }
        _ => format!("rank {}: {error}", ranks.rank()),
    };
    ranks.abort(report(&error, &line))
}
