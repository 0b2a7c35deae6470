//! Training on several processes, the ranks: each learns from a share of every batch, and all make the same step.
//!
//! Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.3. PyTorch: `DistributedDataParallel`.

mod communicator;
mod gradients;
#[cfg(feature = "mpi")]
mod mpi;

pub(super) use communicator::Ranks;
pub use communicator::{Communicator, agree, launched_processes};
pub use gradients::sum_gradients;
#[cfg(feature = "mpi")]
pub use mpi::Mpi;

#[cfg(test)]
mod tests;
