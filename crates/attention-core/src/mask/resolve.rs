//! A mask for scores of one size, as the operations take it.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Device, Int, Tensor, TensorCreationOptions, TensorData};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::is_in_host_memory;

use super::{Flags, Mask, Window, both, minimum};
use crate::ops::{HostMask, Intervals, Keep, ResolvedMask};
use crate::rank::reshape;

/// A mask, resolved for scores `[_, _, queries, keys]`.
#[derive(Debug)]
pub(super) struct Resolved {
    pairs: [usize; 2],
    mask: ResolvedMask<Dispatch>,
}

impl Mask {
    /// The same mask, which remembers what it is for scores of `shape`, `[batch, heads, queries, keys]`: all operations
    /// of a call then read it once.
    ///
    /// # Panics
    /// If an axis of the mask is neither 1 nor that of `shape`, one could be examples or queries, or the mask is on
    /// another device.
    pub(crate) fn resolved_for(&self, shape: [usize; 4], device: &Device) -> Self {
        let [_, _, queries, keys] = shape;
        let resolved = Resolved {
            pairs: [queries, keys],
            mask: self.resolve(shape, device),
        };
        Self {
            resolved: Some(Arc::new(resolved)),
            ..self.clone()
        }
    }

    /// The mask for scores of `shape`, `[batch, heads, queries, keys]`, as operations take it.
    ///
    /// # Panics
    /// If an axis of the mask is neither 1 nor that of `shape`, one could be examples or queries, or the mask is on
    /// another device.
    pub(crate) fn resolve(&self, shape: [usize; 4], device: &Device) -> ResolvedMask<Dispatch> {
        let assert_device = |what: &str, mask| {
            assert_together(what, Argument::of_device("scores", device.clone()), [mask]);
        };
        if let Some(flags) = &self.flags {
            flags.check(shape);
            assert_device(&flags.makers, Argument::on_device("mask", &flags.keep));
        }
        if let Some(lens) = &self.lens {
            let [batch, queries] = lens.dims();
            check_axes("valid lengths", [batch, 1, queries, 1], shape);
            assert_device("valid lengths", Argument::on_device("mask", lens));
        }
        let [_, _, queries, keys] = shape;
        for segments in &self.segments {
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

    /// Whether [`resolve`](Self::resolve) has nothing to find for scores `[_, _, queries, keys]`.
    pub(crate) fn is_resolved_for(&self, pairs: [usize; 2]) -> bool {
        let resolved = self.resolved.as_ref();
        self.is_none() || resolved.is_some_and(|resolved| resolved.pairs == pairs)
    }

    fn is_none(&self) -> bool {
        let has_intervals = self.lens.is_some() || self.depends_on_positions();
        !has_intervals && self.flags.is_none()
    }

    fn on_host(&self, num_queries: usize, num_keys: usize) -> HostMask {
        let lens = self.lens.as_ref().map(|lens| {
            let clamped = |len: i64| usize::try_from(len).unwrap_or(0).min(num_keys);
            let data = lens.clone().into_data();
            Intervals {
                bounds: data.iter::<i64>().map(|len| [0, clamped(len)]).collect(),
                shape: lens.dims(),
            }
        });
        let of_positions = self.intervals_of_positions(num_queries, num_keys);
        let intervals = both(lens, of_positions, |a, b| a.intersect(&b));
        let keep = self.flags.as_ref().map(|Flags { keep, .. }| Keep {
            flags: keep.clone().into_data().iter::<bool>().collect(),
            shape: keep.dims(),
        });
        HostMask { intervals, keep }
    }

    /// Those of window and segments, which no tensor holds.
    fn intervals_of_positions(&self, num_queries: usize, num_keys: usize) -> Option<Intervals> {
        let of_window = self.window.map(|window| Intervals {
            bounds: window.bounds(num_queries, num_keys),
            shape: [1, num_queries],
        });
        let of_segments = self.segments.iter().map(|of| of.intervals(num_queries));
        let all = of_window.into_iter().chain(of_segments);
        all.reduce(|a, b| a.intersect(&b))
    }

    fn on_device(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
    ) -> ResolvedMask<Dispatch> {
        let keep = self.flags.clone().map(|flags| flags.keep.into_dispatch());
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
        let lens = self.lens.clone().map(|lens| {
            let [batch, queries] = lens.dims();
            reshape(lens.clamp(0, num_keys as i64), [batch, 1, queries, 1])
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
            Some(lens) => [start, minimum(lens, end)],
            None => [start, end],
        })
    }
}

impl Window {
    /// The first key that a query attends to and one past the last, per query, clamped to the keys.
    fn bounds(self, num_queries: usize, num_keys: usize) -> Vec<[usize; 2]> {
        let (queries, keys) = (num_queries as i64, num_keys as i64);
        let reach = |limit: Option<usize>| {
            let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
            limit.min(queries + keys)
        };
        let (before, after) = (reach(self.before), reach(self.after));
        let bounds = |query: i64| {
            let position = query + keys - queries;
            let within = |bound: i64| bound.clamp(0, keys) as usize;
            [within(position - before), within(position + after + 1)]
        };
        (0..queries).map(bounds).collect()
    }
}

impl Flags {
    /// # Panics
    /// If they do not fit scores of `shape`, or fit them in two ways.
    fn check(&self, shape: [usize; 4]) {
        let [batch, _, queries, _] = shape;
        let taken = self.taken_for_queries;
        if let Some((rows, maker)) = taken.filter(|(rows, _)| *rows == batch) {
            let [.., keys] = self.keep.dims();
            let of_keys = match maker {
                "Mask::drop" => "Mask::padding",
                _ => "Mask::not_padding",
            };
            assert!(
                rows != queries,
                "{maker}: expected one meaning, got [{rows}, {keys}] for {batch} examples and {queries} queries: \
                 {of_keys} takes [batch, keys], and three axes [1, queries, keys] say queries"
            );
            panic!(
                "{maker}: expected [queries, keys] with {queries} queries, got [{rows}, {keys}]; {of_keys} takes \
                 [batch, keys]"
            );
        }
        check_axes(&self.makers, self.keep.dims(), shape);
    }
}

/// Panics unless every axis of a mask is 1 or that of the scores.
fn check_axes(what: &str, mask: [usize; 4], scores: [usize; 4]) {
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
