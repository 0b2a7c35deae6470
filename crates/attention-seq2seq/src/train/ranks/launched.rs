//! The processes that a launcher started.

use super::communicator::Communicator;
#[cfg(feature = "mpi")]
use super::mpi::Mpi;
use crate::error::{Error, Result};

/// The place of this process among those that a launcher of MPI started, as its environment tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The number of this process, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
}

impl Launched {
    /// The place of this process, without a word to MPI; `None` if no launcher started it.
    pub fn of_environment() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        // Open MPI; MPICH, Intel MPI and Slurm's PMI; Slurm's PMIx, whose programs are not all of MPI.
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

/// The processes that a launcher of MPI (`mpirun`, `srun`) started; without one, this process alone.
///
/// MPI ends all processes when one dies: `mpirun` and `mpiexec` by default, `srun` with `--kill-on-bad-exit`. A
/// process that panics ends the others.
///
/// # Errors
/// [`Error::Config`](crate::Error::Config) if there are several and this build lacks the feature `mpi`, or MPI has been
/// started already, cannot be called from threads in turn, or connects fewer processes than the launcher started.
pub fn launched_processes() -> Result<Box<dyn Communicator>> {
    match Launched::of_environment().map_or(1, |launched| launched.size) {
        0 | 1 => Ok(Box::new(())),
        #[cfg(feature = "mpi")]
        size => Ok(Box::new(Mpi::start(size)?)),
        #[cfg(not(feature = "mpi"))]
        _ => Err(Error::config(
            "this build",
            "one with the feature `mpi`, to train on several processes",
            "one without",
        )),
    }
}

/// Runs `work` on [`launched_processes`].
///
/// After an error of one process all end, for the others may wait for it. `report` prints the line of an error, which
/// begins with the rank of its process, at this process alone, and gives the exit code of all.
///
/// # Errors
/// The errors of [`launched_processes`], and of `work` where a process is alone. Where several were launched for a
/// build without the feature `mpi`, the first has the error, and the others end.
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
        // Another process reports it, and ends this one, which waits for a message that never comes. Where this one
        // ended by itself at the same time, `mpirun` (Open MPI 4.1) would now and then wait for ever.
        Error::RankFailed { .. } | Error::RankDiffers { .. } => {
            let _ = ranks.all_reduce_sum(&mut [0.0]);
            ranks.abort(2)
        }
        _ => format!("rank {}: {error}", ranks.rank()),
    };
    ranks.abort(report(&error, &line))
}
