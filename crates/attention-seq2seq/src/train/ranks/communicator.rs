//! The processes of a training, and what they tell each other.

use crate::error::{Error, Result};

/// The processes of a training, all of which run the same program:
/// [`launched_processes`](super::launched_processes), or your own.
pub trait Communicator: Send + Sync {
    /// The number of this process, from 0. The first prints, validates and writes.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// Replaces the values by their sums over all processes, which call it with the same number of values, and wait for
    /// each other. The sums are the same everywhere, to the bit.
    ///
    /// # Errors
    /// An error if a process cannot be reached any more.
    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()>;

    /// The number of this process among the processes of its machine, from 0: also the number of its GPU, where each
    /// is to have one. By default the rank.
    fn local_rank(&self) -> usize {
        self.rank()
    }

    /// Ends all processes with an exit code: after an error the others may wait for this one. By default this process
    /// alone.
    fn abort(&self, code: u8) -> ! {
        std::process::exit(code.into())
    }
}

/// A process that is alone.
pub(in crate::train) struct Alone;

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_reduce_sum(&self, _: &mut [f32]) -> Result<()> {
        Ok(())
    }
}

impl dyn Communicator + '_ {
    /// Whether this process is the first.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The result of work that every process does for itself, once all have done it: where one failed, all do.
    ///
    /// # Errors
    /// The own error at the first process that failed, [`Error::RankFailed`] at the others; [`Error::Stopped`] where it
    /// was stopped.
    pub fn agree<T>(&self, own: Result<T>) -> Result<T> {
        const STOPPED: u64 = 1;
        let outcome = match &own {
            Ok(_) => 0,
            Err(Error::Stopped) => STOPPED,
            Err(_) => 2,
        };
        let outcomes = self.gather([outcome])?;
        match outcomes.iter().position(|&[outcome]| outcome != 0) {
            Some(rank) if outcomes[rank] == [STOPPED] => Err(Error::Stopped),
            Some(rank) if rank != self.rank() => Err(Error::RankFailed { rank }),
            _ => own,
        }
    }

    /// Does work at the first process alone; the others wait for it.
    ///
    /// # Errors
    /// As for `agree`.
    pub fn at_first<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let own = self.is_first().then(work);
        self.agree(own.transpose())
    }

    /// The number of the first process.
    pub(in crate::train) fn first(&self, own: u64) -> Result<u64> {
        Ok(self.gather([own])?[0][0])
    }

    /// Replaces counts by their sums over all processes.
    pub(in crate::train) fn sum<const N: usize>(&self, counts: [&mut usize; N]) -> Result<()> {
        let all = self.gather(counts.each_ref().map(|count| **count as u64))?;
        for (index, count) in counts.into_iter().enumerate() {
            *count = all.iter().map(|of_rank| of_rank[index] as usize).sum();
        }
        Ok(())
    }

    /// Checks that every process has the checksums of the first.
    ///
    /// # Errors
    /// [`Error::RankDiffers`], at all of them.
    pub(in crate::train) fn check_same<const N: usize>(
        &self,
        checksums: [(&'static str, u32); N],
    ) -> Result<()> {
        let all = self.gather(checksums.map(|(_, checksum)| checksum.into()))?;
        for (rank, of_rank) in all.iter().enumerate() {
            for (index, (what, _)) in checksums.into_iter().enumerate() {
                if of_rank[index] != all[0][index] {
                    return Err(Error::RankDiffers { rank, what });
                }
            }
        }
        Ok(())
    }

    /// The share of a batch that this process learns from. A batch is sorted by length: each share has all lengths. It
    /// is empty where there are more processes than examples.
    pub(in crate::train) fn share(&self, batch: &[u32]) -> Vec<u32> {
        let own = batch.iter().skip(self.rank()).step_by(self.size());
        own.copied().collect()
    }

    /// The numbers of each process, in the order of ranks.
    fn gather<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>> {
        const BYTES: usize = size_of::<u64>();
        // Bytes, each in a place that is 0 at the others: sums in f32 are exact.
        let mut values = vec![0.0; self.size() * N * BYTES];
        let places = values.iter_mut().skip(self.rank() * N * BYTES);
        for (place, byte) in places.zip(own.map(u64::to_le_bytes).as_flattened()) {
            *place = f32::from(*byte);
        }
        self.all_reduce_sum(&mut values)?;
        let bytes: Vec<u8> = values.into_iter().map(|value| value as u8).collect();
        let numbers = bytes.as_chunks().0.iter();
        let numbers: Vec<u64> = numbers.map(|bytes| u64::from_le_bytes(*bytes)).collect();
        Ok(numbers.as_chunks().0.to_vec())
    }
}
