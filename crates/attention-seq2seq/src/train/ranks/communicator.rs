//! The processes of a training, and their communication.

use crate::error::{Error, Result};

/// The processes of a training, which run the same program: use a launcher's by
/// [`with_launched`](super::with_launched), or implement your own. By default a process is single, as `()` is.
pub trait Communicator: Send + Sync {
    /// The number of this process, counted from 0. The first prints, validates and writes.
    fn rank(&self) -> usize {
        0
    }

    /// The number of processes.
    fn size(&self) -> usize {
        1
    }

    /// Replaces the values by their sums over all processes, which must all call it with the same number of values, and
    /// wait for each other. The sums are identical in all processes, to the bit.
    ///
    /// # Errors
    /// An error if a process can no longer be reached.
    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()> {
        let _ = values;
        Ok(())
    }

    /// The number of this process among the processes of its machine, counted from 0: also the number of its GPU, if
    /// each is to have one. The default is the rank.
    fn local_rank(&self) -> usize {
        self.rank()
    }

    /// Ends all processes with an exit code, because after an error the others may be waiting for this one. The default
    /// ends only this process.
    fn abort(&self, code: u8) -> ! {
        std::process::exit(code.into())
    }
}

/// A single process.
impl Communicator for () {}

impl dyn Communicator + '_ {
    /// Whether this process is the first.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The result of work that every process does by itself, once all have finished: if one failed, all fail.
    ///
    /// # Errors
    /// This process's own error if it is the first that failed, [`Error::RankFailed`] otherwise; [`Error::Stopped`] if
    /// it was stopped.
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

    /// Runs work in the first process alone, while the others wait.
    ///
    /// # Errors
    /// As for `agree`.
    pub fn at_first<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let own = self.is_first().then(work);
        self.agree(own.transpose())
    }

    /// The numbers of the first process.
    pub(in crate::train) fn first<const N: usize>(&self, own: [u64; N]) -> Result<[u64; N]> {
        Ok(self.gather(own)?[0])
    }

    /// The seed of this process, since different processes should not drop the same elements.
    pub(in crate::train) fn seed(&self, of_first: u64) -> u64 {
        of_first.wrapping_add(self.rank() as u64)
    }

    /// The number of steps in flight before one is waited for: `alone` in a single process; with several, each step
    /// reads its gradients.
    pub(in crate::train) fn window(&self, alone: usize) -> usize {
        if self.size() > 1 { 1 } else { alone }
    }

    /// Replaces counts by their sums over all processes.
    pub(in crate::train) fn sum<const N: usize>(&self, counts: [&mut usize; N]) -> Result<()> {
        let all = self.gather(counts.each_ref().map(|count| **count as u64))?;
        for (index, count) in counts.into_iter().enumerate() {
            *count = all.iter().map(|of_rank| of_rank[index] as usize).sum();
        }
        Ok(())
    }

    /// Checks that every process has the same checksums as the first. A single process computes none.
    ///
    /// # Errors
    /// [`Error::RankDiffers`], in all processes.
    pub(in crate::train) fn check_same<const N: usize>(
        &self,
        checksums: impl FnOnce() -> Result<[(&'static str, u32); N]>,
    ) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let checksums = checksums()?;
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

    /// The part of a batch that this process trains on. A batch is sorted by length, and each part has all lengths. The
    /// part is empty if there are more processes than examples.
    pub(super) fn share(&self, batch: &[u32]) -> Vec<u32> {
        let own = batch.iter().skip(self.rank()).step_by(self.size());
        own.copied().collect()
    }

    /// The numbers of each process, in the order of ranks.
    fn gather<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>> {
        const BYTES: usize = size_of::<u64>();
        // Each process has its own place for its bytes, with 0 elsewhere, so sums in f32 are exact.
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
