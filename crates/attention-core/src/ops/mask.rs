//! A mask, resolved for the scores of one call.
#![allow(
    clippy::large_enum_variant,
    reason = "there is one for a call; also in what the derive makes"
)]

use std::sync::Arc;

use attention_kernels as kernels;
use burn::backend::tensor::{BoolTensor, Device, IntTensor};
use burn::backend::{Backend, ExtensionType};
use burn_fused_layers::harness::tracked::WithIndicesOf;
use burn_fused_layers::harness::upload::upload;

/// The keys that each query attends to.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum ResolvedMask<B: Backend> {
    /// Every query attends to every key.
    None,
    /// In this process's memory, where the CPU kernels walk it.
    Host {
        /// A mask that all operations of a call share.
        mask: Arc<HostMask>,
    },
    /// On the device.
    Device {
        /// Its intervals or flags.
        #[extension_type]
        mask: DeviceMask<B>,
    },
}

/// A mask on a device: intervals, flags or both (a key must be in both). Intervals are two integers per query.
///
/// # Shapes
/// - `start` and `end`: `[batch or 1, 1, queries or 1, 1]`; query `i` attends to the keys `start_i .. end_i`, with
///   `0 <= start_i` and `end_i <= keys`; the interval is empty where `end_i <= start_i`
/// - `keep`: `[batch or 1, heads or 1, queries or 1, keys or 1]`, true where the query attends to the key
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
#[allow(missing_docs, reason = "fields as above")]
pub enum DeviceMask<B: Backend> {
    /// One interval of keys per query.
    Intervals {
        start: IntTensor<B>,
        end: IntTensor<B>,
    },
    /// A flag for each pair.
    Keep { keep: BoolTensor<B> },
    /// Intervals and flags.
    IntervalsAndKeep {
        start: IntTensor<B>,
        end: IntTensor<B>,
        keep: BoolTensor<B>,
    },
}

impl<B: Backend> ResolvedMask<B> {
    /// A mask on a device, from the intervals `[start, end]`, the flags or both.
    pub fn on_device(intervals: Option<[IntTensor<B>; 2]>, keep: Option<BoolTensor<B>>) -> Self {
        let mask = match (intervals, keep) {
            (None, None) => return Self::None,
            (Some([start, end]), None) => DeviceMask::Intervals { start, end },
            (None, Some(keep)) => DeviceMask::Keep { keep },
            (Some([start, end]), Some(keep)) => DeviceMask::IntervalsAndKeep { start, end, keep },
        };
        Self::Device { mask }
    }

    /// The intervals `[start, end]` and the flags for `num_keys` keys; a mask on the host goes to `device` as flags.
    pub fn to_device(self, num_keys: usize, device: &Device<B>) -> Parts<B> {
        match self {
            Self::None => (None, None),
            Self::Host { mask } => {
                let (masked, shape) = mask.masked_pairs(num_keys);
                let keep = masked.into_iter().map(|masked| !masked).collect();
                (None, Some(upload::<B>(keep, shape, device)))
            }
            Self::Device { mask } => mask.parts(),
        }
    }

    /// The same mask on a backend with the same integer and boolean tensors.
    pub(super) fn on<A: WithIndicesOf<B>>(self) -> ResolvedMask<A> {
        match self {
            Self::None => ResolvedMask::None,
            Self::Host { mask } => ResolvedMask::Host { mask },
            Self::Device { mask } => {
                let (intervals, keep) = mask.parts();
                ResolvedMask::on_device(intervals, keep)
            }
        }
    }
}

/// Intervals `[start, end]` and flags, each if there are any.
pub(crate) type Parts<B> = (Option<[IntTensor<B>; 2]>, Option<BoolTensor<B>>);

impl<B: Backend> DeviceMask<B> {
    fn parts(self) -> Parts<B> {
        match self {
            Self::Intervals { start, end } => (Some([start, end]), None),
            Self::Keep { keep } => (None, Some(keep)),
            Self::IntervalsAndKeep { start, end, keep } => (Some([start, end]), Some(keep)),
        }
    }
}

/// A mask in this process's memory: intervals, flags, both (a key must be in both) or neither.
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

impl Intervals {
    /// The keys in the intervals of both; along an axis of size 1, one interval serves all.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let common = |axis: usize| match self.shape[axis] {
            1 => other.shape[axis],
            size => size,
        };
        let shape @ [batch, queries] = [common(0), common(1)];
        let pairs = (0..batch).flat_map(|batch| (0..queries).map(move |query| [batch, query]));
        let within = |at| {
            let [[start, end], [other_start, other_end]] = [self.at(at), other.at(at)];
            [start.max(other_start), end.min(other_end)]
        };
        Self {
            bounds: pairs.map(within).collect(),
            shape,
        }
    }

    fn at(&self, [batch, query]: [usize; 2]) -> [usize; 2] {
        let [batches, queries] = self.shape;
        self.bounds[batch.min(batches - 1) * queries + query.min(queries - 1)]
    }
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
    /// The mask as the kernels read it.
    pub(super) fn view(&self) -> kernels::Mask<'_> {
        let mut mask = kernels::Mask::none();
        if let Some(Intervals { bounds, shape }) = &self.intervals {
            mask = mask.with_intervals(bounds, *shape);
        }
        if let Some(Keep { flags, shape }) = &self.keep {
            mask = mask.with_keep(flags, *shape);
        }
        mask
    }

    /// The masked pairs, true where masked, and their shape `[batch or 1, heads or 1, queries or 1, num_keys]`.
    pub(crate) fn masked_pairs(&self, num_keys: usize) -> (Vec<bool>, [usize; 4]) {
        let mask = self.view();
        let [batch, heads, queries] = mask.shape();
        let mut masked = vec![false; batch * heads * queries * num_keys];
        for (index, masked) in masked.chunks_exact_mut(num_keys.max(1)).enumerate() {
            mask.masked_keys(head(index / queries, heads), index % queries, masked);
        }
        (masked, [batch, heads, queries, num_keys])
    }

    /// True for a query that attends to none of `num_keys` keys, and the shape `[batch or 1, heads or 1, queries or 1,
    /// 1]`; `None` if there is none.
    pub(super) fn keyless(&self, num_keys: usize) -> Option<(Vec<bool>, [usize; 4])> {
        let (flags, shape): (Vec<bool>, _) = match (&self.keep, &self.intervals) {
            (None, None) => return None,
            (None, Some(Intervals { bounds, shape })) => {
                let is_empty = |&[start, end]: &[usize; 2]| end.min(num_keys) <= start;
                let [batch, queries] = *shape;
                let flags = bounds.iter().map(is_empty).collect();
                (flags, [batch, 1, queries, 1])
            }
            (Some(_), _) => {
                let (masked, [batch, heads, queries, _]) = self.masked_pairs(num_keys);
                let rows = masked.chunks_exact(num_keys.max(1));
                let flags = rows.map(|row| !row.contains(&false)).collect();
                (flags, [batch, heads, queries, 1])
            }
        };
        flags.contains(&true).then_some((flags, shape))
    }

    /// The padding, true for a key that no query in any head that reads it attends to, and its shape `[batch or 1,
    /// key_heads or 1, num_keys]`; `None` if there is none.
    pub(super) fn padding(
        &self,
        key_heads: usize,
        num_keys: usize,
    ) -> Option<(Vec<bool>, [usize; 3])> {
        let mask = self.view();
        let [batch, heads, queries] = mask.shape();
        let key_heads = key_heads.min(heads);
        let attended = (0..batch * key_heads).flat_map(|index| {
            mask.attended_keys(head(index, key_heads), heads / key_heads, queries, num_keys)
        });
        let padding: Vec<bool> = attended.map(|attended| !attended).collect();
        let shape = [batch, key_heads, num_keys];
        padding.contains(&true).then_some((padding, shape))
    }
}

/// The `index`-th head, counted over the `heads` heads of all examples.
fn head(index: usize, heads: usize) -> kernels::HeadIndex {
    kernels::HeadIndex {
        batch: index / heads,
        head: index % heads,
    }
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
}
