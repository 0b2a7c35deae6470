//! A mask, resolved for the scores of one call.

use std::ops::Range;
use std::sync::Arc;

use burn::backend::tensor::{BoolTensor, IntTensor};
use burn::backend::{Backend, BackendTypes, ExtensionType};

/// Which keys each query attends to. Intervals stay intervals: two integers per query.
///
/// # Shapes
/// - `start` and `end`: `[batch or 1, 1, queries or 1, 1]`; query `i` attends to the keys `start_i .. end_i`, with
///   `0 <= start_i` and `end_i <= keys`; the interval is empty where `end_i <= start_i`
/// - `keep`: `[batch or 1, heads or 1, queries or 1, keys or 1]`, true where the query attends to the key
#[derive(Clone, Debug, ExtensionType)]
pub enum ResolvedMask<B: Backend> {
    /// Every query attends to every key.
    None,
    /// In this process's memory, where the CPU kernels walk it.
    Host {
        /// Read once for all operations of a call.
        mask: Arc<HostMask>,
    },
    /// On the device: one interval of keys per query.
    Intervals {
        /// The first key.
        start: IntTensor<B>,
        /// One past the last key.
        end: IntTensor<B>,
    },
    /// On the device: an arbitrary boolean mask.
    Dense {
        /// True where the query attends to the key.
        keep: BoolTensor<B>,
    },
    /// On the device: both; a key must lie in the interval and be kept.
    IntervalsAndDense {
        /// The first key.
        start: IntTensor<B>,
        /// One past the last key.
        end: IntTensor<B>,
        /// True where the query attends to the key.
        keep: BoolTensor<B>,
    },
}

/// A backend with the integers and flags of `B`: `B` itself, or the one that its autodiff wraps.
pub(super) trait WithIndicesOf<B: BackendTypes>:
    Backend
    + BackendTypes<
        IntTensorPrimitive = B::IntTensorPrimitive,
        BoolTensorPrimitive = B::BoolTensorPrimitive,
    >
{
}

impl<A, B> WithIndicesOf<B> for A
where
    B: BackendTypes,
    A: Backend
        + BackendTypes<
            IntTensorPrimitive = B::IntTensorPrimitive,
            BoolTensorPrimitive = B::BoolTensorPrimitive,
        >,
{
}

impl<B: Backend> ResolvedMask<B> {
    /// The same mask on a backend with the same integers and flags.
    pub(super) fn on<A: WithIndicesOf<B>>(self) -> ResolvedMask<A> {
        match self {
            Self::None => ResolvedMask::None,
            Self::Host { mask } => ResolvedMask::Host { mask },
            Self::Intervals { start, end } => ResolvedMask::Intervals { start, end },
            Self::Dense { keep } => ResolvedMask::Dense { keep },
            Self::IntervalsAndDense { start, end, keep } => {
                ResolvedMask::IntervalsAndDense { start, end, keep }
            }
        }
    }
}

/// Intervals, flags, both (a key must be in both) or neither.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostMask {
    /// The keys of each query.
    pub intervals: Option<Intervals>,
    /// Flags of each pair of query and key.
    pub keep: Option<Keep>,
}

/// One interval of keys per query.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// Query `i` of example `b` attends to `start..end` of its `[start, end]`; none if `end <= start`.
    pub bounds: Vec<[usize; 2]>,
    /// `[batch or 1, queries or 1]`
    pub shape: [usize; 2],
}

/// A flag for each pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Keep {
    /// True where the query attends to the key.
    pub flags: Vec<bool>,
    /// `[batch or 1, heads or 1, queries or 1, keys or 1]`
    pub shape: [usize; 4],
}

impl HostMask {
    /// The keys of one row of pairs, of `num_keys`.
    fn row(&self, [batch, head, query]: [usize; 3], num_keys: usize) -> MaskRow<'_> {
        let keys = match &self.intervals {
            Some(Intervals { bounds, shape }) => {
                let [start, end] = bounds[broadcast_index(*shape, [batch, query])];
                let end = end.min(num_keys);
                start.min(end)..end
            }
            None => 0..num_keys,
        };
        let keep = self.keep.as_ref().map(|Keep { flags, shape }| {
            let first = broadcast_index(*shape, [batch, head, query, 0]);
            &flags[first..first + shape[3]]
        });
        MaskRow { keys, keep }
    }

    /// The sizes that the mask tells apart: `[batch or 1, heads or 1, queries or 1]`.
    fn shape(&self) -> [usize; 3] {
        let intervals = self.intervals.as_ref();
        let [batch, queries] = intervals.map_or([1, 1], |intervals| intervals.shape);
        let [keep_batch, heads, keep_queries, _] =
            self.keep.as_ref().map_or([1; 4], |keep| keep.shape);
        [batch.max(keep_batch), heads, queries.max(keep_queries)]
    }

    /// The masked pairs, true where masked, and their shape `[batch or 1, heads or 1, queries or 1, num_keys]`.
    pub(super) fn masked_pairs(&self, num_keys: usize) -> (Vec<bool>, [usize; 4]) {
        let [batch, heads, queries] = self.shape();
        let mut masked = vec![true; batch * heads * queries * num_keys];
        for (index, masked) in masked.chunks_exact_mut(num_keys.max(1)).enumerate() {
            let (head, query) = (index / queries, index % queries);
            let row = self.row([head / heads, head % heads, query], num_keys);
            row.for_each_key(|key| masked[key] = false);
        }
        (masked, [batch, heads, queries, num_keys])
    }

    /// The padding, true for a key that no query of any head which reads it attends to, and its shape
    /// `[batch or 1, key_heads or 1, num_keys]`; `None` if there is none. The time grows with queries + keys if there are
    /// no flags, and with their product if there are.
    pub(super) fn padding(
        &self,
        key_heads: usize,
        num_keys: usize,
    ) -> Option<(Vec<bool>, [usize; 3])> {
        let [batch, heads, queries] = self.shape();
        let key_heads = key_heads.min(heads);
        let group = heads / key_heads;
        let mut padding = vec![true; batch * key_heads * num_keys];
        for (index, padding) in padding.chunks_exact_mut(num_keys.max(1)).enumerate() {
            let (batch, key_head) = (index / key_heads, index % key_heads);
            let readers = key_head * group..(key_head + 1) * group;
            let rows = readers.flat_map(|head| (0..queries).map(move |query| (head, query)));
            let rows = rows.map(|(head, query)| self.row([batch, head, query], num_keys));
            match &self.keep {
                Some(_) => rows.for_each(|row| row.for_each_key(|key| padding[key] = false)),
                None => clear_ranges(rows.map(|row| row.keys), padding),
            }
        }
        padding
            .contains(&true)
            .then_some((padding, [batch, key_heads, num_keys]))
    }
}

/// The keys that one query attends to.
struct MaskRow<'a> {
    /// None outside of it.
    keys: Range<usize>,
    /// A flag for each key, or one for all.
    keep: Option<&'a [bool]>,
}

impl MaskRow<'_> {
    fn for_each_key(self, mut f: impl FnMut(usize)) {
        let keeps = |key: usize| match self.keep {
            Some([flag]) => *flag,
            Some(flags) => flags[key],
            None => true,
        };
        self.keys.filter(|key| keeps(*key)).for_each(&mut f);
    }
}

/// Sets what lies in one of the ranges to false, in time that grows with their number and that of the flags.
fn clear_ranges(ranges: impl Iterator<Item = Range<usize>>, flags: &mut [bool]) {
    // The number of ranges that start at a flag, less those that end there.
    let mut steps = vec![0_isize; flags.len() + 1];
    for range in ranges.filter(|range| !range.is_empty()) {
        steps[range.start] += 1;
        steps[range.end] -= 1;
    }
    let mut depth = 0;
    for (flag, step) in flags.iter_mut().zip(steps) {
        depth += step;
        *flag = *flag && depth == 0;
    }
}

/// Where an element lies in a contiguous array whose axes of size 1 are broadcast.
fn broadcast_index<const N: usize>(shape: [usize; N], at: [usize; N]) -> usize {
    shape.iter().zip(at).fold(0, |index, (&size, at)| {
        index * size + if size == 1 { 0 } else { at }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(bounds: &[[usize; 2]], shape: [usize; 2]) -> HostMask {
        let bounds = bounds.to_vec();
        HostMask {
            intervals: Some(Intervals { bounds, shape }),
            keep: None,
        }
    }

    #[test]
    fn a_key_is_padding_if_no_query_attends_to_it() {
        let mut mask = intervals(&[[0, 2], [4, 9], [3, 1], [5, 6]], [1, 4]);
        let padding = [2, 3].map(|key| (0..8).map(|at| at == key).collect::<Vec<_>>());
        let both: Vec<bool> = (0..8)
            .map(|key| padding[0][key] || padding[1][key])
            .collect();
        assert_eq!(mask.padding(1, 8), Some((both, [1, 1, 8])));
        let flags = vec![true, false, false, true, false, false];
        let shape = [1, 1, 1, 6];
        mask.keep = Some(Keep { flags, shape });
        let padding = vec![false, true, true, true, true, true];
        assert_eq!(mask.padding(1, 6), Some((padding, [1, 1, 6])));
        assert_eq!(intervals(&[[0, 3]], [1, 1]).padding(5, 3), None);
    }

    #[test]
    fn padding_of_a_key_head_is_what_none_of_its_query_heads_attends_to() {
        let flags = vec![
            true, false, false, // head 0
            false, false, true, // head 1
            false, true, false, // head 2
            false, true, false, // head 3
        ];
        let shape = [1, 4, 1, 3];
        let mask = HostMask {
            intervals: None,
            keep: Some(Keep { flags, shape }),
        };
        let padding = vec![false, true, false, true, false, true];
        assert_eq!(mask.padding(2, 3), Some((padding, [1, 2, 3])));
        assert_eq!(mask.padding(1, 3), None);
    }

    #[test]
    fn masked_pairs_lie_outside_of_an_interval_or_are_not_kept() {
        let mut mask = intervals(&[[1, 3], [0, 9], [2, 1], [0, 1]], [2, 2]);
        let flags = vec![true, true, false];
        let shape = [1, 1, 1, 3];
        mask.keep = Some(Keep { flags, shape });
        let kept = [[1], [0], [9], [0]]; // of each row, beside key 1 of the second
        let (masked, shape) = mask.masked_pairs(3);
        assert_eq!(shape, [2, 1, 2, 3]);
        let expected: Vec<bool> = (0..4)
            .flat_map(|row| (0..3).map(move |key| (row, key)))
            .map(|(row, key)| !(kept[row].contains(&key) || (row, key) == (1, 1)))
            .collect();
        assert_eq!(masked, expected);
    }
}
