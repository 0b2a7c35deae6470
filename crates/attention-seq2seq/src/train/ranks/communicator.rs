//! The processes of a training, and what they tell each other.

use crate::error::{Error, Result};

/// The processes of a training, all of which run the same program: `Mpi` (feature `mpi`), or one of your own.
///
/// ```
/// use attention_seq2seq::Result;
/// use attention_seq2seq::train::Communicator;
///
/// /// A process that is alone.
/// struct Alone;
///
/// impl Communicator for Alone {
///     fn rank(&self) -> usize {
///         0
///     }
///     fn size(&self) -> usize {
///         1
///     }
///     fn all_reduce_sum(&self, _: &mut [f32]) -> Result<()> {
///         Ok(())
///     }
/// }
/// ```
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
}

/// The number of processes that a launcher of MPI (`mpirun`, `srun`) says it started this one among, 1 without one. It
/// is known in a build without the feature `mpi`, too: such processes would train the same model several times.
pub fn launched_processes() -> usize {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    // Open MPI; MPICH, Intel MPI and Slurm's PMI; Slurm's PMIx, whose programs are not all of MPI.
    let of_slurm = || number("PMIX_RANK").and_then(|_: usize| number("SLURM_NTASKS"));
    let size = number("OMPI_COMM_WORLD_SIZE").or_else(|| number("PMI_SIZE"));
    size.or_else(of_slurm).unwrap_or(1)
}

/// The result of work that every process does for itself, once all have done it: where one failed, all do.
///
/// # Errors
/// The own error at the first process that failed, [`Error::RankFailed`] at the others; [`Error::Stopped`] where it was
/// stopped.
pub fn agree<T>(communicator: &dyn Communicator, own: Result<T>) -> Result<T> {
    Ranks::of(Some(communicator)).agree(own)
}

/// The processes of a training, one alone among them.
#[derive(Clone, Copy)]
pub(in crate::train) struct Ranks<'a>(pub(super) Option<&'a dyn Communicator>);

impl<'a> Ranks<'a> {
    /// One process.
    pub(in crate::train) const ALONE: Ranks<'static> = Ranks(None);

    pub(in crate::train) fn of(communicator: Option<&'a dyn Communicator>) -> Self {
        Self(communicator.filter(|it| it.size() > 1))
    }

    pub(in crate::train) fn are_several(self) -> bool {
        self.0.is_some()
    }

    pub(in crate::train) fn rank(self) -> usize {
        self.0.map_or(0, Communicator::rank)
    }

    pub(in crate::train) fn is_first(self) -> bool {
        self.rank() == 0
    }

    /// The share of a batch that this process learns from. A batch is sorted by length: each share has all lengths. It
    /// is empty where there are more processes than examples.
    pub(in crate::train) fn share(self, batch: &[u32]) -> Vec<u32> {
        let size = self.0.map_or(1, Communicator::size);
        batch
            .iter()
            .skip(self.rank())
            .step_by(size)
            .copied()
            .collect()
    }

    /// The numbers of each process, in the order of ranks.
    fn gather<const N: usize>(self, own: [u64; N]) -> Result<Vec<[u64; N]>> {
        const BYTES: usize = size_of::<u64>();
        let Some(communicator) = self.0 else {
            return Ok(vec![own]);
        };
        // Bytes, each in a place that is 0 at the others: sums in f32 are exact.
        let mut values = vec![0.0; communicator.size() * N * BYTES];
        let place = &mut values[self.rank() * N * BYTES..][..N * BYTES];
        let bytes = own.into_iter().flat_map(u64::to_le_bytes);
        place
            .iter_mut()
            .zip(bytes)
            .for_each(|(value, byte)| *value = f32::from(byte));
        communicator.all_reduce_sum(&mut values)?;
        let bytes: Vec<u8> = values.into_iter().map(|value| value as u8).collect();
        let (bytes, _) = bytes.as_chunks::<BYTES>();
        let numbers: Vec<u64> = bytes.iter().copied().map(u64::from_le_bytes).collect();
        Ok(numbers.as_chunks::<N>().0.to_vec())
    }

    /// The number of the first process.
    pub(in crate::train) fn first(self, own: u64) -> Result<u64> {
        let [first] = self.gather([own])?[0];
        Ok(first)
    }

    /// The sums over all processes.
    pub(in crate::train) fn sums<const N: usize>(self, own: [u64; N]) -> Result<[u64; N]> {
        let all = self.gather(own)?;
        Ok(std::array::from_fn(|index| {
            all.iter().map(|numbers| numbers[index]).sum()
        }))
    }

    /// [`agree`].
    pub(in crate::train) fn agree<T>(self, own: Result<T>) -> Result<T> {
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
    pub(in crate::train) fn at_first<T>(
        self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let own = self.is_first().then(work);
        self.agree(own.transpose())
    }

    /// Checks that every process has what the first has.
    ///
    /// # Errors
    /// [`Error::RankDiffers`], at all of them.
    pub(in crate::train) fn check_same<const N: usize>(
        self,
        checksums: [(&str, u64); N],
    ) -> Result<()> {
        let all = self.gather(checksums.map(|(_, checksum)| checksum))?;
        for (rank, found) in all.iter().enumerate() {
            for ((what, _), (expected, found)) in checksums.iter().zip(all[0].iter().zip(found)) {
                if expected != found {
                    return Err(Error::RankDiffers {
                        rank,
                        what: what.to_string(),
                        expected: *expected,
                        found: *found,
                    });
                }
            }
        }
        Ok(())
    }
}
