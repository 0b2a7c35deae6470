//! Training on several processes, the ranks: each learns from a share of every batch, and all make the same step.
//!
//! Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.3. PyTorch: `DistributedDataParallel`.

mod communicator;
mod gradients;
mod launched;
#[cfg(feature = "mpi")]
mod mpi;

pub(super) use communicator::Alone;
pub use communicator::Communicator;
pub use gradients::sum_gradients;
pub use launched::launched_processes;

#[cfg(test)]
mod tests;
