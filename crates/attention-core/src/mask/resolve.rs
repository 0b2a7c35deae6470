//! A mask for scores of one size, as the operations take it.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Device, Int, Tensor, TensorCreationOptions, TensorData};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::is_in_host_memory;

use super::lengths::minimum;
use super::{Flags, Mask, both};
use crate::ops::{HostMask, Intervals, Keep, ResolvedMask};
use crate::rank::reshape;

/// A mask, resolved for scores `[_, _, queries, keys]`.
#[derive(Debug)]
pub(super) struct Resolved {
    pairs: [usize; 2],
    mask: ResolvedMask<Dispatch>,
}

impl Mask {
    /// The same mask, which caches its form for scores of `shape`, `[batch, heads, queries, keys]`, so that all
    /// operations of a call read it once.
    ///
    /// # Panics
    /// If an axis of the mask is neither 1 nor as long as in `shape`, an axis could be examples or queries, or the
    /// mask is on another device.
    pub fn resolved_for(&self, shape: [usize; 4], device: &Device) -> Self {
        if self.is_none() {
            return Self::none();
        }
        let [_, _, queries, keys] = shape;
        let resolved = Resolved {
            pairs: [queries, keys],
            mask: self.resolve(shape, device),
        };
        Self {
            parts: self.parts.clone(),
            resolved: Some(Arc::new(resolved)),
        }
    }

    /// The mask for scores of `shape`, `[batch, heads, queries, keys]`, as operations take it.
    ///
    /// # Panics
    /// As [`resolved_for`](Self::resolved_for).
    pub(crate) fn resolve(&self, shape: [usize; 4], device: &Device) -> ResolvedMask<Dispatch> {
        let Some(parts) = &self.parts else {
            return ResolvedMask::None;
        };
        let assert_device = |what: &str, mask| {
            assert_together(what, Argument::of_device("scores", device.clone()), [mask]);
        };
        if let Some(flags) = &parts.flags {
            flags.check(shape);
            assert_device(&flags.makers, Argument::on_device("mask", &flags.keep));
        }
        if let Some(lens) = &parts.lens {
            let [batch, queries] = lens.ends.dims();
            check_axes(&lens.makers, [batch, 1, queries, 1], shape);
            assert_device(&lens.makers, Argument::on_device("mask", &lens.ends));
        }
        let [_, _, queries, keys] = shape;
        if let Some(of) = &parts.intervals {
            let [batch, queries] = of.shape;
            let (maker, keys) = match parts.interval_keys {
                Some(keys) => ("Mask::from_fn", keys),
                None => ("Mask::intervals", 1),
            };
            check_axes(maker, [batch, 1, queries, keys], shape);
        }
        for segments in &parts.segments {
            check_axes("segments", [segments.batch(), 1, 1, 1], shape);
            segments.check_lengths(queries, keys);
        }
        match &self.resolved {
            Some(resolved) if resolved.pairs == [queries, keys] => resolved.mask.clone(),
            _ if self.is_none() => ResolvedMask::None,
            _ if is_in_host_memory(device) => ResolvedMask::Host {
                mask: Arc::new(self.on_host(queries, keys)),
            },
            _ => self.on_device(queries, keys, device),
        }
    }

    /// Whether [`resolve`](Self::resolve) has nothing left to compute for scores `[_, _, queries, keys]`.
    pub(crate) fn is_resolved_for(&self, pairs: [usize; 2]) -> bool {
        let resolved = self.resolved.as_ref();
        self.is_none() || resolved.is_some_and(|resolved| resolved.pairs == pairs)
    }

    /// Whether every query attends to every key.
    pub(crate) fn is_none(&self) -> bool {
        let Some(parts) = &self.parts else {
            return true;
        };
        let has_intervals = parts.lens.is_some() || parts.intervals.is_some();
        !has_intervals && !parts.depends_on_positions() && parts.flags.is_none()
    }

    fn on_host(&self, num_queries: usize, num_keys: usize) -> HostMask {
        let parts = self.parts();
        let lens = parts.lens.as_ref().map(|lens| {
            let clamped = |len: i64| usize::try_from(len).unwrap_or(0).min(num_keys);
            let data = lens.ends.clone().into_data();
            Intervals {
                bounds: data.iter::<i64>().map(|len| [0, clamped(len)]).collect(),
                shape: lens.ends.dims(),
            }
        });
        let of_positions = self.intervals_of_positions(num_queries, num_keys);
        let intervals = both(lens, of_positions, |a, b| a.intersect(&b));
        let keep = parts.flags.as_ref().map(|Flags { keep, .. }| Keep {
            flags: keep.clone().into_data().iter::<bool>().collect(),
            shape: keep.dims(),
        });
        HostMask { intervals, keep }
    }

    /// The intervals of windows, segments and [`intervals`](Mask::intervals), which are not held by tensors.
    pub(super) fn intervals_of_positions(
        &self,
        num_queries: usize,
        num_keys: usize,
    ) -> Option<Intervals> {
        let parts = self.parts();
        let of_windows = parts.windows.intervals(num_queries, num_keys);
        let of_segments = parts.segments.iter().map(|of| of.intervals(num_queries));
        let given = parts.intervals.as_ref().map(|of| of.within(num_keys));
        let all = of_windows.into_iter().chain(of_segments).chain(given);
        all.reduce(|a, b| a.intersect(&b))
    }

    fn on_device(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
    ) -> ResolvedMask<Dispatch> {
        let parts = self.parts();
        let keep = parts.flags.clone();
        let keep = keep.map(|flags| flags.keep.into_dispatch());
        let bounds = self.bounds_on_device(num_queries, num_keys, device);
        let bounds = bounds.map(|bounds| bounds.map(Tensor::into_dispatch));
        ResolvedMask::on_device(bounds, keep)
    }

    /// `start_i` and `end_i`, each `[batch or 1, 1, queries or 1, 1]`.
    fn bounds_on_device(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
    ) -> Option<[Tensor<4, Int>; 2]> {
        let lens = self.parts().lens.clone().map(|lens| {
            let [batch, queries] = lens.ends.dims();
            reshape(lens.ends.clamp(0, num_keys as i64), [batch, 1, queries, 1])
        });
        let Some(Intervals { bounds, shape }) = self.intervals_of_positions(num_queries, num_keys)
        else {
            return lens.map(|end| [end.zeros_like(), end]);
        };
        let options = match &lens {
            Some(lens) => (device, lens.dtype()).into(),
            None => TensorCreationOptions::new(device.clone()),
        };
        let [batch, queries] = shape;
        let [start, end] = [0, 1].map(|side| {
            let bounds: Vec<i64> = bounds.iter().map(|bounds| bounds[side] as i64).collect();
            let data = TensorData::new(bounds, [batch, 1, queries, 1]);
            Tensor::<4, Int>::from_data(data, options.clone())
        });
        Some(match lens {
            Some(lens) => [start, minimum("valid lengths", lens, end)],
            None => [start, end],
        })
    }
}

/// Panics unless every axis of a mask is 1 or as long as the axis of the scores.
pub(super) fn check_axes(what: &str, mask: [usize; 4], scores: [usize; 4]) {
    const AXES: [&str; 4] = ["batch", "heads", "queries", "keys"];
    for axis in 0..4 {
        assert!(
            mask[axis] == 1 || mask[axis] == scores[axis],
            "{what}: axis `{}` expected {} or 1, got {} (scores are [batch, heads, queries, keys] = {scores:?})",
            AXES[axis],
            scores[axis],
            mask[axis],
        );
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::tensor::Bool;

    use super::*;

    #[test]
    fn positions_lengths_and_queries_stay_intervals() {
        let device = Device::flex();
        let keep = Tensor::<2, Bool>::from_data([[false, true, true]], &device);
        let lens = Tensor::<1, Int>::from_ints([4], &device);
        let mask = Mask::queries(keep)
            & Mask::valid_lens(lens)
            & Mask::causal_top_left()
            & Mask::window(2, 1)
            & Mask::segments(&[[3]]);
        let expected = Intervals {
            bounds: vec![[0, 0], [1, 2], [2, 3]],
            shape: [1, 3],
        };
        let expected = HostMask {
            intervals: Some(expected),
            keep: None,
        };
        assert_eq!(mask.on_host(3, 5), expected);
    }
}
