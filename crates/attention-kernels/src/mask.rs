//! Which keys each query attends to.

use std::ops::Range;

use crate::HeadIndex;

/// Which keys each query attends to: an interval per query, an arbitrary mask, both (a key must be in both) or neither.
///
/// A masked key is ignored: kernels do not compute with it, or clear its content first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mask<'a> {
    intervals: Option<Intervals<'a>>,
    keep: Option<Keep<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Intervals<'a> {
    bounds: &'a [[usize; 2]],
    shape: [usize; 2],
    /// Strides of batch and query; 0 where one interval serves all.
    strides: [usize; 2],
}

#[derive(Clone, Copy, Debug)]
struct Keep<'a> {
    keep: &'a [bool],
    shape: [usize; 4],
    /// Strides of batch, head, query and key; 0 where one flag serves all.
    strides: [usize; 4],
}

/// The mask of one query.
#[derive(Clone, Debug)]
pub(crate) struct QueryMask<'a> {
    /// All keys outside this range are masked.
    pub range: Range<usize>,
    keep: Option<(&'a [bool], usize)>,
}

impl<'a> Mask<'a> {
    /// Every query attends to every key.
    pub fn none() -> Self {
        Self::default()
    }

    /// Query `i` of example `b` attends to the keys `start..end` of `bounds[b, i] = [start, end]`, and to none if
    /// `end <= start`. Bounds beyond the keys are cut off.
    ///
    /// # Shapes
    /// - bounds `[batch or 1, queries or 1]`, contiguous, with the sizes `shape`
    ///
    /// # Panics
    /// If `bounds` does not fit `shape`.
    pub fn with_intervals(mut self, bounds: &'a [[usize; 2]], shape: [usize; 2]) -> Self {
        let [batch, queries] = shape;
        assert!(
            bounds.len() == batch * queries,
            "Mask: {shape:?} expected {} intervals, got {}",
            batch * queries,
            bounds.len()
        );
        let strides = broadcast(shape, [queries, 1]);
        self.intervals = Some(Intervals {
            bounds,
            shape,
            strides,
        });
        self
    }

    /// A query attends to a key where `keep` is true.
    ///
    /// # Shapes
    /// - keep `[batch or 1, heads or 1, queries or 1, keys or 1]`, contiguous, with the sizes `shape`
    ///
    /// # Panics
    /// If `keep` does not fit `shape`.
    pub fn with_keep(mut self, keep: &'a [bool], shape: [usize; 4]) -> Self {
        let [batch, heads, queries, keys] = shape;
        let expected = batch * heads * queries * keys;
        assert!(
            keep.len() == expected,
            "Mask: {shape:?} expected {expected} flags, got {}",
            keep.len()
        );
        let strides = broadcast(shape, [heads * queries * keys, queries * keys, keys, 1]);
        self.keep = Some(Keep {
            keep,
            shape,
            strides,
        });
        self
    }

    /// # Panics
    /// If an axis of the mask is neither 1 nor as long as the axis of the scores, `[batch, heads, queries, keys]`.
    pub(crate) fn check(&self, scores: [usize; 4]) {
        let fits = |size: usize, expected: usize| size == 1 || size == expected;
        if let Some(Intervals { shape, .. }) = self.intervals {
            assert!(
                fits(shape[0], scores[0]) && fits(shape[1], scores[2]),
                "Mask: intervals expected [{} or 1, {} or 1], got {shape:?}",
                scores[0],
                scores[2]
            );
        }
        if let Some(Keep { shape, .. }) = self.keep {
            assert!(
                (0..4).all(|axis| fits(shape[axis], scores[axis])),
                "Mask: flags expected {scores:?} or 1 on any axis, got {shape:?}"
            );
        }
    }

    /// As [`check`](Self::check), for `[batch, key_heads, queries, keys]`: the mask may have a head for each query head
    /// that shares a key head.
    pub(crate) fn check_grouped(&self, [batch, key_heads, queries, keys]: [usize; 4]) {
        let heads = self.keep.map_or(key_heads, |keep| keep.shape[1]);
        let is_grouped = key_heads > 0 && heads.is_multiple_of(key_heads);
        let heads = if is_grouped { heads } else { key_heads };
        self.check([batch, heads, queries, keys]);
    }

    /// Whether a key inside a query's interval may be masked.
    pub(crate) fn is_dense(&self) -> bool {
        self.keep.is_some()
    }

    /// Whether every query attends to every key.
    pub(crate) fn is_none(&self) -> bool {
        self.intervals.is_none() && self.keep.is_none()
    }

    /// The mask of one query, for `num_keys` keys.
    #[inline]
    pub(crate) fn of_query(&self, at: HeadIndex, query: usize, num_keys: usize) -> QueryMask<'a> {
        let range = match self.intervals {
            Some(Intervals {
                bounds, strides, ..
            }) => {
                let [start, end] = bounds[at.batch * strides[0] + query * strides[1]];
                let end = end.min(num_keys);
                start.min(end)..end
            }
            None => 0..num_keys,
        };
        let keep = self.keep.map(|Keep { keep, strides, .. }| {
            let start = at.batch * strides[0] + at.head * strides[1] + query * strides[2];
            (&keep[start..], strides[3])
        });
        QueryMask { range, keep }
    }

    /// The sizes in which the mask differs, `[batch or 1, heads or 1, queries or 1]`.
    pub fn shape(&self) -> [usize; 3] {
        let [batch, queries] = self.intervals.map_or([1; 2], |intervals| intervals.shape);
        let [keep_batch, heads, keep_queries, _] = self.keep.map_or([1; 4], |keep| keep.shape);
        [batch.max(keep_batch), heads, queries.max(keep_queries)]
    }

    /// Writes for each key of `masked` whether it is masked for one query of one head.
    pub fn masked_keys(&self, at: HeadIndex, query: usize, masked: &mut [bool]) {
        let keys = 0..masked.len();
        masked.fill(false);
        self.of_query(at, query, keys.len())
            .fill(&keys, masked, true);
    }

    /// Whether each of `num_keys` keys of the key head `key` is attended to by one of the `num_queries` queries of one
    /// of the `group` heads that share it, `key.head * group ..`.
    ///
    /// The time grows with queries + keys for a mask without flags, and with queries × keys for a mask with flags.
    pub fn attended_keys(
        &self,
        key: HeadIndex,
        group: usize,
        num_queries: usize,
        num_keys: usize,
    ) -> Vec<bool> {
        if self.is_dense() {
            let mut attended = vec![false; num_keys];
            for head in key.head * group..(key.head + 1) * group {
                let at = HeadIndex { head, ..key };
                for query in 0..num_queries {
                    let mask = self.of_query(at, query, num_keys);
                    for key in mask.range.clone() {
                        attended[key] |= mask.attends(key);
                    }
                }
            }
            return attended;
        }
        // The intervals that start at a key, less those that end there. They are the same for every head.
        let mut steps = vec![0_isize; num_keys + 1];
        for query in 0..num_queries {
            let range = self.of_query(key, query, num_keys).range;
            if !range.is_empty() {
                steps[range.start] += 1;
                steps[range.end] -= 1;
            }
        }
        let depths = steps.into_iter().scan(0, |depth, step| {
            *depth += step;
            Some(*depth)
        });
        depths.take(num_keys).map(|depth| depth > 0).collect()
    }

    /// The smallest range that holds every key that one of `queries` attends to; it may be larger.
    pub(crate) fn span(
        &self,
        batch: usize,
        queries: Range<usize>,
        num_keys: usize,
    ) -> Range<usize> {
        let Some(Intervals { strides, .. }) = self.intervals else {
            return 0..num_keys;
        };
        let queries = match strides[1] {
            0 => 0..queries.len().min(1),
            _ => queries,
        };
        let at = HeadIndex { batch, head: 0 };
        queries
            .map(|query| self.of_query(at, query, num_keys).range)
            .filter(|range| !range.is_empty())
            .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
            .unwrap_or(0..0)
    }
}

impl QueryMask<'_> {
    /// Whether the query may attend to one of `keys`; never false if it does.
    #[inline(always)]
    pub(crate) fn meets(&self, keys: &Range<usize>) -> bool {
        self.range.start < keys.end && keys.start < self.range.end
    }

    /// Whether the query attends to `key`.
    #[inline(always)]
    pub(crate) fn attends(&self, key: usize) -> bool {
        self.range.contains(&key)
            && match self.keep {
                Some((keep, stride)) => keep[key * stride],
                None => true,
            }
    }

    /// Whether the query attends to one of `keys`.
    pub(crate) fn attends_any(&self, keys: &Range<usize>) -> bool {
        let start = self.range.start.max(keys.start);
        let end = self.range.end.min(keys.end);
        start < end
            && match self.keep {
                Some((keep, 0)) => keep[0],
                Some((keep, _)) => keep[start..end].contains(&true),
                None => true,
            }
    }

    /// Writes `masked` to the elements of masked keys; `row` has an element for each of `keys`.
    #[inline(always)]
    pub(crate) fn fill<E: Copy>(&self, keys: &Range<usize>, row: &mut [E], masked: E) {
        let start = self.range.start.clamp(keys.start, keys.end);
        let end = self.range.end.clamp(start, keys.end);
        row[..start - keys.start].fill(masked);
        row[end - keys.start..].fill(masked);
        let row = &mut row[start - keys.start..end - keys.start];
        match self.keep {
            Some((keep, 0)) if keep[0] => {}
            Some((_, 0)) => row.fill(masked),
            Some((keep, _)) => {
                for (element, &keep) in row.iter_mut().zip(&keep[start..end]) {
                    *element = if keep { *element } else { masked };
                }
            }
            None => {}
        }
    }
}

/// The strides, 0 on axes of size 1.
fn broadcast<const N: usize>(shape: [usize; N], strides: [usize; N]) -> [usize; N] {
    std::array::from_fn(|axis| if shape[axis] == 1 { 0 } else { strides[axis] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(batch: usize, head: usize) -> HeadIndex {
        HeadIndex { batch, head }
    }

    #[test]
    fn intervals_are_cut_off_at_the_keys_and_empty_where_they_end_before_they_start() {
        let bounds = [[1, 9], [4, 2], [0, 3], [7, 8]];
        let mask = Mask::none().with_intervals(&bounds, [2, 2]);
        let range = |batch, query| mask.of_query(at(batch, 0), query, 5).range;
        assert_eq!(range(0, 0), 1..5);
        assert!(range(0, 1).is_empty());
        assert_eq!(range(1, 0), 0..3);
        assert!(range(1, 1).is_empty());
        assert_eq!(mask.span(0, 0..2, 5), 1..5);
        assert_eq!(mask.span(1, 1..2, 5), 0..0);
    }

    #[test]
    fn flags_broadcast_over_axes_of_size_one() {
        let keep = [true, false, true, false, true, true];
        let mask = Mask::none().with_keep(&keep, [2, 1, 1, 3]);
        let attends = |at, query| {
            let mask = mask.of_query(at, query, 3);
            [0, 1, 2].map(|key| mask.attends(key))
        };
        assert_eq!(attends(at(0, 4), 7), [true, false, true]);
        assert_eq!(attends(at(1, 0), 2), [false, true, true]);
    }

    #[test]
    fn a_key_is_attended_to_if_one_query_attends_to_it() {
        let bounds = [[0, 2], [4, 9], [3, 1], [5, 6]];
        let mask = Mask::none().with_intervals(&bounds, [1, 4]);
        let attended = mask.attended_keys(at(0, 0), 1, 4, 8);
        assert_eq!(
            attended,
            [0, 1, 2, 3, 4, 5, 6, 7].map(|key| !(2..4).contains(&key))
        );
        let keep = [true, false, false, true, false, false];
        let mask = mask.with_keep(&keep, [1, 1, 1, 6]);
        assert_eq!(
            mask.attended_keys(at(0, 0), 1, 4, 6),
            [true, false, false, false, false, false]
        );
    }

    #[test]
    fn a_key_is_attended_to_if_one_head_of_its_group_attends_to_it() {
        let keep = [
            true, false, false, false, true, false, false, true, true, false, false, false,
        ];
        let mask = Mask::none().with_keep(&keep, [1, 4, 1, 3]);
        let attended = |head| mask.attended_keys(at(0, head), 2, 5, 3);
        assert_eq!(attended(0), [true, true, false]);
        assert_eq!(attended(1), [false, true, true]);
    }

    #[test]
    fn masked_keys_lie_outside_of_the_interval_or_are_not_kept() {
        let bounds = [[1, 3], [0, 9], [2, 1], [0, 1]];
        let keep = [true, true, false];
        let mask = Mask::none()
            .with_intervals(&bounds, [2, 2])
            .with_keep(&keep, [1, 1, 1, 3]);
        assert_eq!(mask.shape(), [2, 1, 2]);
        let masked = |batch, query| {
            let mut masked = [true, false, true];
            mask.masked_keys(at(batch, 5), query, &mut masked);
            masked
        };
        assert_eq!(masked(0, 0), [true, false, true]);
        assert_eq!(masked(0, 1), [false, false, true]);
        assert_eq!(masked(1, 0), [true, true, true]);
        assert_eq!(masked(1, 1), [false, true, true]);
    }

    #[test]
    fn a_key_must_be_in_both() {
        let bounds = [[1, 3]];
        let keep = [true, true, false, true];
        let mask = Mask::none()
            .with_intervals(&bounds, [1, 1])
            .with_keep(&keep, [1, 1, 1, 4]);
        let mask = mask.of_query(at(0, 0), 0, 4);
        assert_eq!(
            [0, 1, 2, 3].map(|key| mask.attends(key)),
            [false, true, false, false]
        );
    }
}
