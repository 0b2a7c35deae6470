//! Masks with their data, for the tests of every kernel.

use std::fmt;

use attention_kernels::Mask;

/// Batch, head, query and key of the score `at`, of `[batch, heads, queries, keys]`.
pub(crate) fn pair([_, heads, queries, keys]: [usize; 4], at: usize) -> [usize; 4] {
    let row = at / keys;
    let (head, query) = (row / queries, row % queries);
    [head / heads, head % heads, query, at % keys]
}

/// Intervals, flags, both or neither.
#[derive(Clone, Default)]
pub(crate) struct OwnedMask {
    pub(crate) intervals: Option<(Vec<[usize; 2]>, [usize; 2])>,
    pub(crate) keep: Option<(Vec<bool>, [usize; 4])>,
}

impl OwnedMask {
    pub(crate) fn of_intervals(bounds: Vec<[usize; 2]>, shape: [usize; 2]) -> Self {
        let intervals = Some((bounds, shape));
        Self {
            intervals,
            keep: None,
        }
    }

    pub(crate) fn mask(&self) -> Mask<'_> {
        let mut mask = Mask::none();
        if let Some((bounds, shape)) = &self.intervals {
            mask = mask.with_intervals(bounds, *shape);
        }
        if let Some((keep, shape)) = &self.keep {
            mask = mask.with_keep(keep, *shape);
        }
        mask
    }

    /// Whether a query attends to a key.
    pub(crate) fn attends(&self, [batch, head, query, key]: [usize; 4]) -> bool {
        let index = |shape: &[usize], at: &[usize]| {
            shape.iter().zip(at).fold(0, |index, (size, at)| {
                index * size + if *size == 1 { 0 } else { *at }
            })
        };
        let is_inside = self.intervals.iter().all(|(bounds, shape)| {
            let [start, end] = bounds[index(shape, &[batch, query])];
            (start..end).contains(&key)
        });
        let is_kept = |(keep, shape): &(Vec<bool>, [usize; 4])| {
            keep[index(shape, &[batch, head, query, key])]
        };
        is_inside && self.keep.iter().all(is_kept)
    }
}

/// Intervals, but only the number of flags.
impl fmt::Debug for OwnedMask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "intervals {:?}", self.intervals)?;
        let kept = |keep: &[bool]| keep.iter().filter(|keep| **keep).count();
        match &self.keep {
            Some((keep, shape)) => write!(f, ", {} flags of {shape:?}", kept(keep)),
            None => Ok(()),
        }
    }
}
