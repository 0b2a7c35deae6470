//! Which keys a query attends to.

mod behind;
mod compare;
mod dense;
mod from_fn;
mod intervals;
mod lengths;
mod positions;
mod resolve;
mod segments;

use std::ops::{BitAnd, BitAndAssign};
use std::sync::{Arc, LazyLock};

use burn::tensor::{Bool, Int, Shape, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::ops::Intervals;
use dense::Flags;
use lengths::Lengths;
use positions::Windows;
use resolve::Resolved;
use segments::Segments;

/// Which keys each query attends to.
///
/// Valid lengths, causal and window masks, segments, masks of queries and [`intervals`](Self::intervals) say that query
/// `i` attends to the keys `start_i .. end_i`. They stay two integers per query until a kernel walks them; masks of
/// flags are dense: [`padding`](Self::padding) and [`not_padding`](Self::not_padding) for keys, [`keep`](Self::keep)
/// and [`drop`](Self::drop) for pairs. `&` combines masks: a query attends to a key where both say so.
///
/// The type of a boolean mask does not tell which of two meanings `true` has:
///
/// | boolean tensor | true | here |
/// | --- | --- | --- |
/// | Burn's `mask_pad`, PyTorch's `key_padding_mask` | masked | [`padding`](Self::padding), `Mask::from` |
/// | Burn's `mask_attn`, the mask of Burn's function `attention` | masked | [`drop`](Self::drop), `Mask::from` |
/// | `attn_mask` of PyTorch's `nn.MultiheadAttention` | masked | [`drop`](Self::drop) |
/// | `attn_mask` of PyTorch's `scaled_dot_product_attention` | attended to | [`keep`](Self::keep) |
/// | masks of ONNX, JAX and Keras | attended to | [`keep`](Self::keep) |
/// | Hugging Face's `attention_mask` of keys | attended to | [`not_padding`](Self::not_padding) |
/// | Keras's `query_mask` | a query | [`queries`](Self::queries) |
///
/// `Mask::from` takes Burn's meaning: its three masks differ by their number of axes, two, three and four.
///
/// A masked key is ignored: whatever it holds, NaN included, changes no bit of the result or of a gradient. A
/// non-finite element of a query reaches that query's results, the gradients of the keys and values that it attends to,
/// and the gradients of parameters, but no other query's results, nor the gradients of other keys. A query that attends
/// to no key gets weights, context and gradients of exactly zero, whatever it holds and whatever the gradient of its
/// context is.
///
/// ```
/// use attention_core::Mask;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let lens = Tensor::<1, Int>::from_ints([2, 6], &device);
/// let mask = Mask::valid_lens(lens) & Mask::causal();
/// # let _ = mask;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// `None` if every query attends to every key.
    parts: Option<Arc<Parts>>,
    /// The result of [`resolve`](Self::resolve) for scores of one size.
    resolved: Option<Arc<Resolved>>,
}

/// The parts of a mask: a query attends to a key where every part says so. Shared by a pointer, as a call hands its
/// mask on many times.
#[derive(Clone, Debug, Default, PartialEq)]
struct Parts {
    lens: Option<Lengths>,
    windows: Windows,
    intervals: Option<Intervals>,
    /// The number of keys among which the intervals lie, if it is given.
    interval_keys: Option<usize>,
    segments: Vec<Segments>,
    flags: Option<Flags>,
}

impl From<Parts> for Mask {
    fn from(parts: Parts) -> Self {
        Self {
            parts: Some(Arc::new(parts)),
            resolved: None,
        }
    }
}

impl Mask {
    /// Every query attends to every key.
    pub fn none() -> Self {
        Self::default()
    }

    fn parts(&self) -> &Parts {
        static NONE: LazyLock<Parts> = LazyLock::new(Parts::default);
        self.parts.as_deref().unwrap_or(&NONE)
    }

    /// The mask of the examples `indices`, in that order.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If the indices are on another device, or an index is no example.
    pub fn select(&self, indices: Tensor<1, Int>) -> Self {
        let Some(parts) = &self.parts else {
            return Self::none();
        };
        let of_lens = parts.lens.as_ref().map(Lengths::argument);
        let of_flags = parts.flags.as_ref();
        let of_flags = of_flags.map(|flags| Argument::on_device("flags", &flags.keep));
        let first = Argument::on_device("indices", &indices);
        assert_together("Mask::select", first, of_lens.into_iter().chain(of_flags));
        let select_lens = |ends: Tensor<2, Int>| ends.select(0, indices.clone());
        // Converted to integers, because burn-flex 0.22.1 selects booleans into a tensor of another type.
        let select_flags = |keep: Tensor<4, Bool>| keep.int().select(0, indices.clone()).bool();
        let (of_intervals, of_segments) = (parts.intervals.as_ref(), parts.segments.iter());
        Parts {
            lens: parts.lens.as_ref().map(|lens| lens.map(select_lens)),
            windows: parts.windows,
            intervals: of_intervals.map(|of| of.select(indices.clone())),
            interval_keys: parts.interval_keys,
            segments: of_segments.map(|of| of.select(indices.clone())).collect(),
            flags: parts.flags.as_ref().map(|flags| flags.map(select_flags)),
        }
        .into()
    }

    /// The mask with every example repeated `times` times, the copies next to each other.
    pub fn expand(&self, times: usize) -> Self {
        let Some(parts) = &self.parts else {
            return Self::none();
        };
        Parts {
            lens: parts.lens.as_ref().map(|lens| lens.expand(times)),
            windows: parts.windows,
            intervals: parts.intervals.as_ref().map(|of| of.expand(times)),
            interval_keys: parts.interval_keys,
            segments: parts.segments.iter().map(|of| of.expand(times)).collect(),
            flags: parts.flags.as_ref().map(|flags| flags.expand(times)),
        }
        .into()
    }

    /// The part of the mask that is known before the number of queries is: the mask without windows and without the
    /// bounds between segments, and the number of queries that it fits.
    pub(crate) fn without_positions(&self) -> (Self, usize) {
        let Some(parts) = &self.parts else {
            return (Self::none(), 1);
        };
        let lens = parts.lens.as_ref().map_or(1, |lens| lens.ends.dims()[1]);
        let flags = parts.flags.as_ref().map_or(1, |flags| flags.keep.dims()[2]);
        let intervals = parts.intervals.as_ref().map_or(1, |of| of.shape[1]);
        let num_queries = [lens, flags].into_iter().find(|number| *number != 1);
        let num_queries = num_queries.unwrap_or(intervals);
        if !parts.depends_on_positions() {
            return (self.clone(), num_queries);
        }
        let of_any = |segments: &Segments| segments.of_any_queries(num_queries);
        let known = Parts {
            windows: Windows::default(),
            segments: parts.segments.iter().map(of_any).collect(),
            ..Parts::clone(parts)
        };
        (known.into(), num_queries)
    }

    /// The part that masks a key for all queries alike: lengths of examples, masks of keys and the ends of segments. It
    /// fits a single query.
    pub(crate) fn of_keys_alone(&self) -> Self {
        let Some(parts) = &self.parts else {
            return Self::none();
        };
        let of_any = |segments: &Segments| segments.of_any_queries(1);
        Parts {
            lens: parts.lens.as_ref().and_then(Lengths::of_examples_alone),
            windows: Windows::default(),
            intervals: parts.intervals.clone().filter(|of| of.shape[1] == 1),
            interval_keys: parts.interval_keys,
            flags: parts.flags.as_ref().and_then(Flags::of_keys_alone),
            segments: parts.segments.iter().map(of_any).collect(),
        }
        .into()
    }

    /// The number of query heads, as far as the mask tells: its heads axis, if it has one, or else `key_heads`.
    pub(crate) fn heads_over(&self, key_heads: usize) -> usize {
        let flags = self.parts().flags.as_ref();
        let heads = flags.map_or(1, |flags| flags.keep.dims()[1]);
        if heads == 1 { key_heads } else { heads }
    }

    /// Whether the mask changes with the positions of the queries.
    pub(crate) fn depends_on_positions(&self) -> bool {
        let parts = self.parts.as_deref();
        parts.is_some_and(Parts::depends_on_positions)
    }

    /// The mask, after it was found to fit: a beam search may select other examples without checking its axes again.
    pub(crate) fn settled(mut self) -> Self {
        let flags = self.parts().flags.as_ref();
        if flags.is_some_and(|flags| flags.taken_for_queries.is_some())
            && let Some(parts) = &mut self.parts
            && let Some(flags) = &mut Arc::make_mut(parts).flags
        {
            flags.taken_for_queries = None;
        }
        self
    }
}

impl Parts {
    /// Whether the mask changes with the positions of the queries.
    fn depends_on_positions(&self) -> bool {
        !self.windows.is_none() || !self.segments.is_empty()
    }

    /// The parts of both.
    fn and(own: Arc<Self>, other: Arc<Self>) -> Arc<Self> {
        let (own, other) = (Arc::unwrap_or_clone(own), Arc::unwrap_or_clone(other));
        Arc::new(Self {
            lens: both(own.lens, other.lens, Lengths::minimum),
            windows: own.windows.intersect(other.windows),
            intervals: both(own.intervals, other.intervals, Intervals::both),
            interval_keys: both(own.interval_keys, other.interval_keys, |keys, got| {
                let what = "Mask::from_fn combined with `&`";
                assert!(got == keys, "{what}: {keys} keys expected, got {got}");
                keys
            }),
            segments: [own.segments, other.segments].concat(),
            flags: both(own.flags, other.flags, Flags::intersect),
        })
    }
}

/// A query attends to a key where both masks say so.
///
/// # Panics
/// If both are valid lengths, intervals or dense and an axis differs without being 1, or both come from functions with
/// different numbers of keys.
impl BitAnd for Mask {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self {
            parts: both(self.parts, other.parts, Parts::and),
            resolved: None,
        }
    }
}

impl From<&Mask> for Mask {
    fn from(mask: &Mask) -> Self {
        mask.clone()
    }
}

/// `mask = mask & other`
impl BitAndAssign for Mask {
    fn bitand_assign(&mut self, other: Self) {
        *self = std::mem::take(self) & other;
    }
}

/// The examples `indices` of `batch`, read to the host.
///
/// # Panics
/// If an index is no example.
fn selected(indices: Tensor<1, Int>, batch: usize) -> impl Iterator<Item = usize> {
    let example = move |at: i64| {
        let example = usize::try_from(at).ok().filter(|at| *at < batch);
        example
            .unwrap_or_else(|| panic!("Mask::select: indices in 0 .. {batch} expected, got {at}"))
    };
    let indices: Vec<i64> = indices.into_data().iter().collect();
    indices.into_iter().map(example)
}

fn both<T>(a: Option<T>, b: Option<T>, combine: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(combine(a, b)),
        (a, b) => a.or(b),
    }
}

fn expand_to_common<const D: usize, K: burn::tensor::kind::Basic>(
    what: &str,
    a: Tensor<D, K>,
    b: Tensor<D, K>,
) -> (Tensor<D, K>, Tensor<D, K>) {
    let first = Argument::on_device("first mask", &a);
    let others = [Argument::on_device("second mask", &b)];
    assert_together(&format!("{what} combined with `&`"), first, others);
    let (from, to) = (a.dims(), b.dims());
    let shape: [usize; D] = std::array::from_fn(|axis| {
        let (a, b) = (from[axis], to[axis]);
        assert!(
            a == b || a == 1 || b == 1,
            "{what} combined with `&`: axis {axis} expected {a} or 1, got {b} ({from:?} & {to:?})"
        );
        if a == 1 { b } else { a }
    });
    (a.expand(Shape::from(shape)), b.expand(Shape::from(shape)))
}
