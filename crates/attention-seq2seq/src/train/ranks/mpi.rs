//! Processes that a launcher of MPI started.

use mpi::Threading;
use mpi::collective::{CommunicatorCollectives, SystemOperation};
use mpi::environment::Universe;
use mpi::topology::{Communicator as _, SimpleCommunicator};

use super::communicator::{Communicator, launched_processes};
use crate::error::{Error, Result};

/// The processes that `mpirun` started, or another launcher of MPI.
///
/// MPI ends the processes of a training when one dies: `mpirun` and `mpiexec` by default, `srun` with
/// `--kill-on-bad-exit`. After an error call [`abort`](Self::abort): the others may wait for this process.
pub struct Mpi {
    rank: usize,
    size: usize,
    local_rank: usize,
    /// MPI ends with it.
    _universe: Universe,
}

impl Mpi {
    /// Starts MPI in this process, which may do so once.
    ///
    /// # Errors
    /// [`Error::Config`] if MPI has been started already, cannot be called from threads in turn, or has fewer processes
    /// than [`launched_processes`].
    pub fn start() -> Result<Self> {
        let refused = |found: &str| {
            let expected = "a library that one thread after the other may call, started once";
            Error::config("MPI", expected, found)
        };
        let started = mpi::initialize_with_threading(Threading::Serialized);
        let (universe, threading) = started.ok_or_else(|| refused("it was started before"))?;
        if threading < Threading::Serialized {
            return Err(refused("one that the main thread alone may call"));
        }
        let world = universe.world();
        let machine = world.split_shared(world.rank());
        let (expected, found) = (launched_processes(), world.size() as usize);
        if found < expected {
            let expected = format!(
                "the {expected} processes that its launcher started (by the `mpirun` of the library that this program \
                 was built with)"
            );
            return Err(Error::config("MPI", expected, found));
        }
        Ok(Self {
            rank: world.rank() as usize,
            size: found,
            local_rank: machine.rank() as usize,
            _universe: universe,
        })
    }

    /// Ends all processes, this one with them, with an exit code.
    pub fn abort(&self, code: u8) -> ! {
        SimpleCommunicator::world().abort(code.into())
    }

    /// The number of this process among those of its machine, from 0: that of its GPU, where each is to have one.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }
}

impl Communicator for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    /// An error of MPI ends all processes, as is MPI's default: it is never an error here.
    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()> {
        let own = values.to_vec();
        SimpleCommunicator::world().all_reduce_into(&own[..], values, SystemOperation::sum());
        Ok(())
    }
}

/// A process that panics does not wait for the others, as the end of MPI would.
impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort(2);
        }
    }
}
