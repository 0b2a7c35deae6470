//! Masks of lengths: the first keys, whose number a tensor holds.

use burn::tensor::{Bool, DType, Int, IntDType, Tensor};
use burn_fused_layers::harness::checks::Argument;
use burn_fused_layers::is_in_host_memory;

use super::{Mask, Parts, both, expand_to_common};
use crate::rank::reshape;

/// The number of keys, from the first on, that a query attends to.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// `[batch or 1, queries or 1]`: keys at and beyond the length are masked.
    pub(super) ends: Tensor<2, Int>,
    /// The part that is equal for all queries, `[batch or 1, 1]`, if `ends` has queries.
    pub(super) of_examples: Option<Tensor<2, Int>>,
    /// The functions that made it.
    pub(super) makers: String,
}

const VALID_LENGTHS: &str = "valid lengths";

impl Mask {
    /// Every query of example `b` attends to the keys `0 .. lens[b]`; lengths are clamped to `0 ..= keys`.
    ///
    /// # Shapes
    /// - lens `[batch]`
    pub fn valid_lens(lens: Tensor<1, Int>) -> Self {
        Self::of_lengths(VALID_LENGTHS, lens.unsqueeze_dim(1))
    }

    /// Query `i` of example `b` attends to the keys `0 .. lens[b, i]`; lengths are clamped to `0 ..= keys`.
    ///
    /// # Shapes
    /// - lens `[batch, queries]`
    pub fn valid_lens_per_query(lens: Tensor<2, Int>) -> Self {
        Self::of_lengths(VALID_LENGTHS, lens)
    }

    /// A query attends to every key where `keep` is true, and to none where it is false: such a query has weights,
    /// context and gradients of 0, whatever it holds, and adds nothing to the gradients of keys and values.
    ///
    /// A mask of padded queries, like Keras's `query_mask`. In cross-attention combine it with a mask of keys:
    /// `Mask::queries(..) & Mask::not_padding(..)`.
    ///
    /// ```
    /// use attention_core::{DotProductAttentionConfig, Mask};
    /// use burn::prelude::*;
    ///
    /// let device = Device::flex();
    /// let rows = Tensor::<3>::ones([1, 3, 4], &device);
    /// let keep = Tensor::<2, Bool>::from_data([[true, true, false]], &device);
    /// let attention = DotProductAttentionConfig::new().init();
    /// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::queries(keep));
    /// let last = context.narrow(1, 2, 1).into_data();
    /// assert_eq!(last, TensorData::zeros::<f32, _>([1, 1, 4]));
    /// ```
    ///
    /// # Shapes
    /// - keep `[batch, queries]`; an axis of size 1 is broadcast
    pub fn queries(keep: Tensor<2, Bool>) -> Self {
        // All keys or none: lengths are clamped to the number of keys.
        Self::of_lengths("Mask::queries", wide(keep.int()).mul_scalar(i32::MAX))
    }

    fn of_lengths(maker: &str, ends: Tensor<2, Int>) -> Self {
        Parts {
            lens: Some(Lengths::new(maker.to_string(), wide(ends))),
            ..Parts::default()
        }
        .into()
    }
}

impl Lengths {
    pub(super) fn new(makers: String, ends: Tensor<2, Int>) -> Self {
        Self {
            ends,
            of_examples: None,
            makers,
        }
    }

    /// The tensor, to check against the tensors of a call.
    pub(super) fn argument(&self) -> Argument<'_> {
        Argument::on_device(&self.makers, &self.ends)
    }

    /// The part that is equal for all queries.
    pub(super) fn of_examples_alone(&self) -> Option<Self> {
        let [_, queries] = self.ends.dims();
        let ends = match queries {
            1 => Some(&self.ends),
            _ => self.of_examples.as_ref(),
        };
        ends.map(|ends| Self::new(self.makers.clone(), ends.clone()))
    }

    /// The lengths of other examples, which `f` selects along the batch; a single example serves all.
    pub(super) fn map(&self, f: impl Fn(Tensor<2, Int>) -> Tensor<2, Int>) -> Self {
        let of_each = |ends: &Tensor<2, Int>| match ends.dims() {
            [1, _] => ends.clone(),
            _ => f(ends.clone()),
        };
        Self {
            ends: of_each(&self.ends),
            of_examples: self.of_examples.as_ref().map(of_each),
            makers: self.makers.clone(),
        }
    }

    /// Repeats every example `times` times, the copies next to each other.
    pub(super) fn expand(&self, times: usize) -> Self {
        self.map(|ends| {
            let [batch, queries] = ends.dims();
            let ends = reshape(ends, [batch, 1, queries]).repeat_dim(1, times);
            reshape(ends, [batch * times, queries])
        })
    }

    /// The keys within the lengths of both.
    pub(super) fn minimum(self, other: Self) -> Self {
        let [own, others] = [&self, &other].map(Self::of_examples_alone);
        let of_examples = both(own, others, Self::of_both);
        Self {
            of_examples: of_examples.map(|lens| lens.ends),
            ..self.of_both(other)
        }
    }

    fn of_both(self, other: Self) -> Self {
        let makers = if self.makers == other.makers {
            self.makers
        } else {
            format!("{} & {}", self.makers, other.makers)
        };
        Self::new(makers, minimum(&other.makers, self.ends, other.ends))
    }
}

/// Widens lengths, since numbers of keys, with which they are compared, may exceed a narrow type. Unsigned lengths
/// become signed: Burn 0.22.1's fusion panics when it compares them, the host when it casts a number that does not fit.
fn wide(lens: Tensor<2, Int>) -> Tensor<2, Int> {
    match lens.dtype() {
        DType::I32 | DType::I64 => lens,
        DType::U32 | DType::U64 if is_in_host_memory(&lens.device()) => {
            lens.clamp(0, i32::MAX).cast(IntDType::I32)
        }
        DType::U32 => none_negative(lens.cast(IntDType::I32)),
        DType::U64 => none_negative(lens.cast(IntDType::I64)),
        _ => lens.cast(IntDType::I32),
    }
}

/// Corrects lengths that were unsigned: one too large for a signed type is negative now, but above any number of keys.
fn none_negative(lens: Tensor<2, Int>) -> Tensor<2, Int> {
    let wrapped = lens.clone().lower_elem(0);
    lens.mask_fill(wrapped, i32::MAX)
}

/// The smaller of two lengths, in the wider type.
pub(super) fn minimum<const D: usize>(
    what: &str,
    a: Tensor<D, Int>,
    b: Tensor<D, Int>,
) -> Tensor<D, Int> {
    let dtype = match a.dtype() {
        DType::I32 => b.dtype(),
        _ => DType::I64,
    };
    let (a, b) = expand_to_common(what, a.cast(dtype), b.cast(dtype));
    a.min_pair(b)
}
