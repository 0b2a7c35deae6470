//! Which keys a query attends to.

mod resolve;
mod segments;

use std::ops::BitAnd;
use std::sync::Arc;

use burn::tensor::{Bool, DType, Int, IntDType, Shape, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::rank::reshape;
use resolve::Resolved;
use segments::Segments;

/// Which keys each query attends to.
///
/// Valid lengths, causal and window masks and segments say that query `i` attends to the keys `start_i .. end_i`. They
/// stay two integers per query until a kernel walks them; masks of flags are dense: [`padding`](Self::padding) and
/// [`not_padding`](Self::not_padding) of keys, [`keep`](Self::keep) and [`drop`](Self::drop) of pairs. `&` combines
/// masks: a query attends to a key where both say so.
///
/// A masked key is ignored: whatever it holds, NaN included, changes no bit of the result or of a gradient. What is not
/// finite in a query reaches its own results, the gradients of the keys and values that it attends to, and those of
/// parameters; not what other queries get, nor the gradients of keys that it does not attend to. A query that attends
/// to no key at all gets weights, context and gradients of exactly zero, whatever it holds, or receives as the gradient
/// of its context.
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
    /// `[batch or 1, queries or 1]`: keys at and beyond the length are masked.
    lens: Option<Tensor<2, Int>>,
    window: Option<Window>,
    /// A query attends to a key where all of them say so.
    segments: Vec<Segments>,
    flags: Option<Flags>,
    /// The result of [`resolve`](Self::resolve) for scores of one size.
    resolved: Option<Arc<Resolved>>,
}

/// A dense mask.
#[derive(Clone, Debug)]
struct Flags {
    /// `[batch or 1, heads or 1, queries or 1, keys or 1]`, true where the query attends to the key.
    keep: Tensor<4, Bool>,
    /// Which functions made it.
    makers: String,
    /// The size of the first of two axes, which is taken for the queries, and who took it so.
    taken_for_queries: Option<(usize, &'static str)>,
}

impl Flags {
    /// The same of other examples, which `f` takes along the batch; one example stands for all.
    fn map(&self, f: impl FnOnce(Tensor<4, Bool>) -> Tensor<4, Bool>) -> Self {
        let keep = match self.keep.dims() {
            [1, ..] => self.keep.clone(),
            _ => f(self.keep.clone()),
        };
        Self {
            keep,
            ..self.clone()
        }
    }
}

/// Keys at most `before` before and `after` after the query's own position; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    before: Option<usize>,
    after: Option<usize>,
}

impl Mask {
    /// Every query attends to every key.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every query of example `b` attends to the keys `0 .. lens[b]`; lengths are clamped to `0 ..= keys`.
    ///
    /// # Shapes
    /// - lens `[batch]`
    pub fn valid_lens(lens: Tensor<1, Int>) -> Self {
        Self::from_lens(lens.unsqueeze_dim(1))
    }

    /// Query `i` of example `b` attends to the keys `0 .. lens[b, i]`; lengths are clamped to `0 ..= keys`.
    ///
    /// # Shapes
    /// - lens `[batch, queries]`
    pub fn valid_lens_per_query(lens: Tensor<2, Int>) -> Self {
        Self::from_lens(lens)
    }

    /// Query `i` attends to the keys up to its own position: `key <= i + keys - queries`.
    ///
    /// The diagonal is aligned bottom-right, as in Burn's `attention`: the last query attends to every key. (PyTorch's
    /// `is_causal` aligns top-left; the two agree where there are as many queries as keys.)
    pub fn causal() -> Self {
        Self::from_window(None, Some(0))
    }

    /// Query `i` attends to the keys at most `before` before and `after` after its own position `i + keys - queries`.
    ///
    /// The positions are those of the queries in a call: what a window alone masks for all of them is known in
    /// `forward`, but not yet in [`Attention::prepare`](crate::Attention::prepare), whose keys must therefore be finite
    /// wherever a gradient of their projection is wanted.
    pub fn window(before: usize, after: usize) -> Self {
        Self::from_window(Some(before), Some(after))
    }

    /// No query attends to a key where `padding` is true; PyTorch's `key_padding_mask`.
    ///
    /// # Shapes
    /// - padding `[batch, keys]`
    pub fn padding(padding: Tensor<2, Bool>) -> Self {
        Self::of_keys("Mask::padding", padding.bool_not())
    }

    /// Every query attends to the keys where `keys` is true; Hugging Face's `attention_mask`.
    ///
    /// # Shapes
    /// - keys `[batch, keys]`
    pub fn not_padding(keys: Tensor<2, Bool>) -> Self {
        Self::of_keys("Mask::not_padding", keys)
    }

    /// A query attends to a key where `keep` is true.
    ///
    /// Two axes are queries and keys. Where there are as many examples as queries they could as well be examples and
    /// keys, and the mask is refused by what it is given to: [`not_padding`](Self::not_padding) takes `[batch, keys]`,
    /// and `keep.unsqueeze::<3>()` is `[1, queries, keys]` beyond doubt.
    ///
    /// # Shapes
    /// - keep `[queries, keys]`, `[batch, queries, keys]` or `[batch, heads, queries, keys]`; an axis of size 1
    ///   is broadcast
    pub fn keep<const D: usize>(keep: Tensor<D, Bool>) -> Self {
        Self::of_pairs("Mask::keep", keep)
    }

    /// A query does not attend to a key where `drop` is true. Shapes as for [`keep`](Self::keep); a mask of keys alone
    /// is a [`padding`](Self::padding).
    pub fn drop<const D: usize>(drop: Tensor<D, Bool>) -> Self {
        Self::of_pairs("Mask::drop", drop.bool_not())
    }

    fn of_keys(maker: &'static str, keep: Tensor<2, Bool>) -> Self {
        let [batch, keys] = keep.dims();
        Self::of_flags(Flags {
            keep: reshape(keep, [batch, 1, 1, keys]),
            makers: maker.to_string(),
            taken_for_queries: None,
        })
    }

    fn of_pairs<const D: usize>(maker: &'static str, keep: Tensor<D, Bool>) -> Self {
        const { assert!(D >= 2 && D <= 4, "a dense mask has two, three or four axes") };
        let dims = keep.dims();
        let shape = match D {
            2 => [1, 1, dims[0], dims[1]],
            3 => [dims[0], 1, dims[1], dims[2]],
            _ => [dims[0], dims[1], dims[2], dims[3]],
        };
        Self::of_flags(Flags {
            keep: reshape(keep, shape),
            makers: maker.to_string(),
            taken_for_queries: (D == 2 && dims[0] > 1).then_some((dims[0], maker)),
        })
    }

    fn of_flags(flags: Flags) -> Self {
        Self {
            flags: Some(flags),
            ..Self::default()
        }
    }

    /// The mask of the examples `indices`, in that order.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If the indices are on another device, or one is no example.
    pub fn select(&self, indices: Tensor<1, Int>) -> Self {
        let of_lens = self.lens.as_ref();
        let of_lens = of_lens.map(|lens| Argument::on_device("valid lengths", lens));
        let of_flags = self.flags.as_ref();
        let of_flags = of_flags.map(|flags| Argument::on_device("flags", &flags.keep));
        let first = Argument::on_device("indices", &indices);
        assert_together("Mask::select", first, of_lens.into_iter().chain(of_flags));
        Self {
            lens: self.lens.clone().map(|lens| match lens.dims() {
                [1, _] => lens,
                _ => lens.select(0, indices.clone()),
            }),
            window: self.window,
            segments: self
                .segments
                .iter()
                .map(|of| of.select(indices.clone()))
                .collect(),
            // By way of integers: burn-flex 0.22.1 selects booleans into a tensor of another type.
            flags: self
                .flags
                .as_ref()
                .map(|flags| flags.map(|keep| keep.int().select(0, indices).bool())),
            resolved: None,
        }
    }

    /// The mask with every example repeated `times` times, the copies next to each other.
    pub fn expand(&self, times: usize) -> Self {
        Self {
            lens: self.lens.clone().map(|lens| match lens.dims() {
                [1, _] => lens,
                [batch, queries] => {
                    let lens = reshape(lens, [batch, 1, queries]).repeat_dim(1, times);
                    reshape(lens, [batch * times, queries])
                }
            }),
            window: self.window,
            segments: self.segments.iter().map(|of| of.expand(times)).collect(),
            flags: self.flags.as_ref().map(|flags| {
                flags.map(|keep| {
                    let [batch, heads, queries, keys] = keep.dims();
                    let keep = reshape(keep, [batch, 1, heads, queries, keys]).repeat_dim(1, times);
                    reshape(keep, [batch * times, heads, queries, keys])
                })
            }),
            resolved: None,
        }
    }

    /// The part that is known of padding before the number of queries is: the mask without its window and what tells
    /// its segments apart, and the number of queries it speaks of.
    pub(crate) fn without_positions(&self) -> (Self, usize) {
        let lens = self.lens.as_ref().map_or(1, |lens| lens.dims()[1]);
        let flags = self.flags.as_ref().map_or(1, |flags| flags.keep.dims()[2]);
        let num_queries = if lens == 1 { flags } else { lens };
        let mask = if self.depends_on_positions() {
            let of_any = |segments: &Segments| segments.of_any_queries(num_queries);
            Self {
                window: None,
                segments: self.segments.iter().map(of_any).collect(),
                resolved: None,
                ..self.clone()
            }
        } else {
            self.clone()
        };
        (mask, num_queries)
    }

    /// The number of heads of queries that read `key_heads` heads of keys, as far as the mask tells: those of its own
    /// heads axis, if it has one, or else as many as there are of keys.
    pub(crate) fn heads_over(&self, key_heads: usize) -> usize {
        let heads = self.flags.as_ref().map_or(1, |flags| flags.keep.dims()[1]);
        if heads == 1 { key_heads } else { heads }
    }

    /// Whether it says something else for other positions of the queries.
    pub(crate) fn depends_on_positions(&self) -> bool {
        self.window.is_some() || !self.segments.is_empty()
    }

    /// The same, after it was found to fit: what other examples a beam search selects says nothing of its axes.
    pub(crate) fn settled(mut self) -> Self {
        if let Some(flags) = &mut self.flags {
            flags.taken_for_queries = None;
        }
        self
    }

    fn from_lens(lens: Tensor<2, Int>) -> Self {
        // Lengths are compared with the numbers of keys, which a narrow type cannot hold; and unsigned ones make
        // Burn 0.22.1 panic when fusion is on.
        let lens = match lens.dtype() {
            DType::I32 | DType::I64 => lens,
            _ => lens.cast(IntDType::I32),
        };
        Self {
            lens: Some(lens),
            ..Self::default()
        }
    }

    fn from_window(before: Option<usize>, after: Option<usize>) -> Self {
        Self {
            window: Some(Window { before, after }),
            ..Self::default()
        }
    }
}

impl Window {
    fn intersect(self, other: Self) -> Self {
        Self {
            before: both(self.before, other.before, usize::min),
            after: both(self.after, other.after, usize::min),
        }
    }
}

/// A query attends to a key where both masks say so.
///
/// # Panics
/// If both are valid lengths or both are dense and an axis differs without being 1.
impl BitAnd for Mask {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self {
            lens: both(self.lens, other.lens, minimum),
            window: both(self.window, other.window, Window::intersect),
            segments: [self.segments, other.segments].concat(),
            flags: both(self.flags, other.flags, |a, b| {
                let (keep, other) = expand_to_common(&b.makers, a.keep, b.keep);
                Flags {
                    keep: keep.bool_and(other),
                    makers: format!("{} & {}", a.makers, b.makers),
                    taken_for_queries: a.taken_for_queries.or(b.taken_for_queries),
                }
            }),
            resolved: None,
        }
    }
}

fn both<T>(a: Option<T>, b: Option<T>, combine: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(combine(a, b)),
        (a, b) => a.or(b),
    }
}

fn minimum<const D: usize>(a: Tensor<D, Int>, b: Tensor<D, Int>) -> Tensor<D, Int> {
    let dtype = a.dtype();
    let (a, b) = expand_to_common("valid lengths", a, b.cast(dtype));
    a.min_pair(b)
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
