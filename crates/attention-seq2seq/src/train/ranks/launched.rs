//! The processes that a launcher started.

use super::communicator::{Alone, Communicator};
#[cfg(feature = "mpi")]
use super::mpi::Mpi;
use crate::error::Result;

/// The processes that a launcher of MPI (`mpirun`, `srun`) started; without one, this process alone.
///
/// MPI ends all processes when one dies: `mpirun` and `mpiexec` by default, `srun` with `--kill-on-bad-exit`. A
/// process that panics ends the others.
///
/// # Errors
/// [`Error::Config`](crate::Error::Config) if there are several and this build lacks the feature `mpi`, or MPI has been
/// started already, cannot be called from threads in turn, or connects fewer processes than the launcher started.
pub fn launched_processes() -> Result<Box<dyn Communicator>> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    // Open MPI; MPICH, Intel MPI and Slurm's PMI; Slurm's PMIx, whose programs are not all of MPI.
    let of_slurm = || number("PMIX_RANK").and_then(|_: usize| number("SLURM_NTASKS"));
    let size = number("OMPI_COMM_WORLD_SIZE").or_else(|| number("PMI_SIZE"));
    match size.or_else(of_slurm).unwrap_or(1) {
        0 | 1 => Ok(Box::new(Alone)),
        #[cfg(feature = "mpi")]
        size => Ok(Box::new(Mpi::start(size)?)),
        #[cfg(not(feature = "mpi"))]
        _ => Err(crate::error::Error::config(
            "this build",
            "one with the feature `mpi`, to train on several processes",
            "one without",
        )),
    }
}
