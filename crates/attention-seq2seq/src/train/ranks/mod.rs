//! Training on several processes, the ranks: each learns from its part of every batch, and all make the same step.
//!
//! Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.3. PyTorch equivalent: `DistributedDataParallel`.

mod communicator;
mod gradients;
mod launched;
#[cfg(feature = "mpi")]
mod mpi;

pub use communicator::Communicator;
pub use gradients::sum_gradients;
pub use launched::{Launched, launched_processes, with_launched};

#[cfg(test)]
mod tests;
