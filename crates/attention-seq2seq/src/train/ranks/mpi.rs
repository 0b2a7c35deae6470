//! Processes that are connected by MPI.

use mpi::Threading;
use mpi::collective::{CommunicatorCollectives, SystemOperation};
use mpi::environment::Universe;
use mpi::topology::{Communicator as _, SimpleCommunicator};

use super::communicator::Communicator;
use crate::error::{Error, Result};

pub(super) struct Mpi {
    rank: usize,
    size: usize,
    local_rank: usize,
    /// Dropping it finalizes MPI.
    _universe: Universe,
}

impl Mpi {
    /// Starts MPI in this process, one of `expected` processes.
    pub(super) fn start(expected: usize) -> Result<Self> {
        let started = mpi::initialize_with_threading(Threading::Serialized);
        let Some((universe, Threading::Serialized | Threading::Multiple)) = started else {
            let expected = "a library that one thread after the other may call, started once";
            let found = "one that was started before, or that the main thread alone may call";
            return Err(Error::config("MPI", expected, found));
        };
        let world = universe.world();
        let machine = world.split_shared(world.rank());
        let size = world.size() as usize;
        if size < expected {
            let expected = format!(
                "the {expected} processes that its launcher started (by the `mpirun` of the library that this program \
                 was built with)"
            );
            return Err(Error::config("MPI", expected, size));
        }
        Ok(Self {
            rank: world.rank() as usize,
            size,
            local_rank: machine.rank() as usize,
            _universe: universe,
        })
    }
}

impl Communicator for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// An MPI error ends all processes, as is MPI's default, so it is never returned.
    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()> {
        let own = values.to_vec();
        SimpleCommunicator::world().all_reduce_into(&own[..], values, SystemOperation::sum());
        Ok(())
    }

    fn abort(&self, code: u8) -> ! {
        SimpleCommunicator::world().abort(code.into())
    }
}

/// A panicking process does not wait for the others, as finalizing MPI would.
impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort(2);
        }
    }
}
