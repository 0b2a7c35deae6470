//! Masks of a call's keys behind extra keys.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::dense::Flags;
use super::lengths::Lengths;
use super::{Mask, Parts, both};
use crate::ops::Intervals;

impl Mask {
    /// The mask for scores of `shape`, `[batch, heads, queries, keys]`, with `number` more keys in front, which every
    /// query attends to. Intervals that begin at the first key stay intervals; others, with a gap before them, become
    /// flags.
    ///
    /// # Panics
    /// If the mask does not fit scores of `shape`, or is on another device.
    pub(crate) fn behind(&self, number: usize, shape: [usize; 4], device: &Device) -> Self {
        self.resolve(shape, device);
        let [_, _, queries, keys] = shape;
        if self.is_none() || keys == 0 {
            return Self::none();
        }
        let parts = self.parts();
        let flags = parts.flags.as_ref().map(|of| of.behind(number, keys));
        let of_positions = self.intervals_of_positions(queries, keys);
        let (intervals, gaps) = match of_positions {
            Some(of) if of.have_gaps() => (None, Some(of.flags_behind(number, keys, device))),
            of => (of.map(|of| of.behind(number)), None),
        };
        Parts {
            lens: parts.lens.as_ref().map(|of| of.behind(number, keys)),
            intervals,
            flags: both(flags, gaps, Flags::intersect),
            ..Parts::default()
        }
        .into()
    }
}

impl Lengths {
    fn behind(&self, number: usize, keys: usize) -> Self {
        let ends = self.ends.clone().clamp(0, keys as i64) + number as i64;
        Self::new(self.makers.clone(), ends)
    }
}

impl Flags {
    fn behind(&self, number: usize, keys: usize) -> Self {
        let [batch, heads, queries, _] = self.keep.dims();
        let [in_front, own] = [number, keys].map(|keys| [batch, heads, queries, keys]);
        let in_front = Tensor::<4, Bool>::full(in_front, true, &self.keep.device());
        Self {
            keep: Tensor::cat(vec![in_front, self.keep.clone().expand(own)], 3),
            of_keys: None,
            ..self.clone()
        }
    }
}

impl Intervals {
    /// Whether an interval begins after the first key.
    fn have_gaps(&self) -> bool {
        let mut bounds = self.bounds.iter();
        bounds.any(|&[start, end]| 0 < start && start < end)
    }

    /// Intervals [without gaps](Self::have_gaps), extended by the keys in front.
    fn behind(mut self, number: usize) -> Self {
        let longer = |[start, end]: [usize; 2]| [0, number + if start < end { end } else { 0 }];
        self.bounds = self.bounds.into_iter().map(longer).collect();
        self
    }

    fn flags_behind(&self, number: usize, keys: usize, device: &Device) -> Flags {
        let [batch, queries] = self.shape;
        let keep = self.bounds.iter().flat_map(|&[start, end]| {
            let own = move |key| start + number <= key && key < end + number;
            (0..number + keys).map(move |key| key < number || own(key))
        });
        let shape = [batch, 1, queries, number + keys];
        let keep = TensorData::new(keep.collect::<Vec<bool>>(), shape);
        Flags::new("Mask::intervals", Tensor::from_data(keep, device))
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::tensor::Int;

    use super::*;
    use crate::ops::{HostMask, ResolvedMask};

    /// Causal masks and lengths stay two numbers for each query.
    #[test]
    fn intervals_from_the_first_key_stay_intervals() {
        let device = Device::flex();
        let lens = Tensor::<1, Int>::from_ints([3, 0], &device);
        let mask = Mask::valid_lens(lens) & Mask::causal();
        let behind = mask.behind(2, [2, 1, 3, 4], &device);
        let ResolvedMask::Host { mask } = behind.resolve([2, 1, 3, 6], &device) else {
            panic!("expected a mask on the host, got {behind:?}");
        };
        let bounds = vec![[0, 4], [0, 5], [0, 5], [0, 2], [0, 2], [0, 2]];
        let expected = HostMask {
            intervals: Some(Intervals {
                bounds,
                shape: [2, 3],
            }),
            keep: None,
        };
        assert_eq!(*mask, expected);
    }

    /// Every query attends to the keys in front, and to its own as before.
    #[test]
    fn a_gap_becomes_flags() {
        let device = Device::flex();
        let keep = Tensor::<2, Bool>::from_data([[true, false, true, true]], &device);
        let mask = Mask::window(1, 0) & Mask::not_padding(keep);
        let behind = mask.behind(1, [1, 1, 3, 4], &device);
        let ResolvedMask::Host { mask } = behind.resolve([1, 1, 3, 5], &device) else {
            panic!("expected a mask on the host, got {behind:?}");
        };
        let attended: Vec<bool> = mask
            .masked_pairs(5)
            .0
            .iter()
            .map(|masked| !masked)
            .collect();
        let rows = [[1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 1, 1]];
        assert_eq!(
            attended,
            rows.concat()
                .into_iter()
                .map(|at| at == 1)
                .collect::<Vec<_>>()
        );
    }
}
