//! Masks of flags, one for each pair or each key.

use burn::tensor::{Bool, Tensor};

use super::resolve::check_axes;
use super::{Mask, Parts, both, expand_to_common};
use crate::rank::{repeat_examples, reshape};

/// A dense mask.
#[derive(Clone, Debug)]
pub(super) struct Flags {
    /// `[batch or 1, heads or 1, queries or 1, keys or 1]`, true where the query attends to the key.
    pub(super) keep: Tensor<4, Bool>,
    /// The part that is equal for all queries, `[batch or 1, heads or 1, 1, keys or 1]`, if `keep` has queries.
    pub(super) of_keys: Option<Tensor<4, Bool>>,
    /// The functions that made it.
    pub(super) makers: String,
    /// For a mask of two axes, the size of the first, taken for the queries, and the function that took it so.
    pub(super) taken_for_queries: Option<(usize, &'static str)>,
}

impl Mask {
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

    /// A query attends to a key where `keep` is true: the sense of PyTorch's `scaled_dot_product_attention`, ONNX, JAX
    /// and Keras.
    ///
    /// A tensor of two axes has queries and keys. If there are as many examples as queries, the axes could also be
    /// examples and keys, and every call refuses the mask: [`not_padding`](Self::not_padding) takes `[batch, keys]`,
    /// and `keep.unsqueeze::<3>()` is `[1, queries, keys]` beyond doubt.
    ///
    /// # Shapes
    /// - keep `[queries, keys]`, `[batch, queries, keys]` or `[batch, heads, queries, keys]`; an axis of size 1
    ///   is broadcast
    pub fn keep<const D: usize>(keep: Tensor<D, Bool>) -> Self {
        Self::of_pairs("Mask::keep", keep)
    }

    /// A query does not attend to a key where `drop` is true: the sense of Burn and of PyTorch's
    /// `nn.MultiheadAttention`. Shapes as for [`keep`](Self::keep); a mask of keys alone is a
    /// [`padding`](Self::padding).
    pub fn drop<const D: usize>(drop: Tensor<D, Bool>) -> Self {
        Self::of_pairs("Mask::drop", drop.bool_not())
    }

    fn of_keys(maker: &'static str, keep: Tensor<2, Bool>) -> Self {
        let [batch, keys] = keep.dims();
        Self::of_flags(Flags::new(maker, reshape(keep, [batch, 1, 1, keys])))
    }

    pub(super) fn of_pairs<const D: usize>(maker: &'static str, keep: Tensor<D, Bool>) -> Self {
        const { assert!(D >= 2 && D <= 4, "a dense mask has two, three or four axes") };
        let dims = keep.dims();
        let shape = match D {
            2 => [1, 1, dims[0], dims[1]],
            3 => [dims[0], 1, dims[1], dims[2]],
            _ => [dims[0], dims[1], dims[2], dims[3]],
        };
        Self::of_flags(Flags {
            taken_for_queries: (D == 2 && dims[0] > 1).then_some((dims[0], maker)),
            ..Flags::new(maker, reshape(keep, shape))
        })
    }

    fn of_flags(flags: Flags) -> Self {
        Parts {
            flags: Some(flags),
            ..Parts::default()
        }
        .into()
    }
}

/// Burn's sense, true where masked: the `mask_pad` of `burn::nn`'s attention, `[batch, keys]`, as [`Mask::padding`].
/// Two axes are not queries and keys here, as they are in [`Mask::keep`] and [`Mask::drop`].
impl From<Tensor<2, Bool>> for Mask {
    fn from(mask_pad: Tensor<2, Bool>) -> Self {
        Self::padding(mask_pad)
    }
}

/// Burn's sense, true where masked: the `mask_attn` of `burn::nn`'s attention, `[batch, queries, keys]`, as
/// [`Mask::drop`]. [`Mask::keep`] takes PyTorch's.
impl From<Tensor<3, Bool>> for Mask {
    fn from(mask_attn: Tensor<3, Bool>) -> Self {
        Self::drop(mask_attn)
    }
}

/// Burn's sense, true where masked: the mask of `burn::tensor::module::attention`, `[batch, heads, queries, keys]`, as
/// [`Mask::drop`]. [`Mask::keep`] takes PyTorch's.
impl From<Tensor<4, Bool>> for Mask {
    fn from(mask: Tensor<4, Bool>) -> Self {
        Self::drop(mask)
    }
}

impl Flags {
    pub(super) fn new(maker: &str, keep: Tensor<4, Bool>) -> Self {
        Self {
            keep,
            of_keys: None,
            makers: maker.to_string(),
            taken_for_queries: None,
        }
    }

    /// The part that is equal for all queries.
    pub(super) fn of_keys_alone(&self) -> Option<Self> {
        let [_, _, queries, _] = self.keep.dims();
        let keep = match queries {
            1 => Some(&self.keep),
            _ => self.of_keys.as_ref(),
        };
        keep.map(|keep| Self {
            keep: keep.clone(),
            of_keys: None,
            ..self.clone()
        })
    }

    /// The mask of other examples, which `f` selects along the batch; a single example serves all.
    pub(super) fn map(&self, f: impl Fn(Tensor<4, Bool>) -> Tensor<4, Bool>) -> Self {
        let of_each = |flags: &Tensor<4, Bool>| match flags.dims() {
            [1, ..] => flags.clone(),
            _ => f(flags.clone()),
        };
        Self {
            keep: of_each(&self.keep),
            of_keys: self.of_keys.as_ref().map(of_each),
            ..self.clone()
        }
    }

    /// Repeats every example `times` times, the copies next to each other.
    pub(super) fn expand(&self, times: usize) -> Self {
        self.map(|keep| repeat_examples(keep, times))
    }

    /// The pairs that both keep.
    pub(super) fn intersect(self, other: Self) -> Self {
        let of_keys = both(self.of_keys_alone(), other.of_keys_alone(), Self::of_both);
        Self {
            of_keys: of_keys.map(|flags| flags.keep),
            ..self.of_both(other)
        }
    }

    fn of_both(self, other: Self) -> Self {
        let (keep, others) = expand_to_common(&other.makers, self.keep, other.keep);
        Self {
            keep: keep.bool_and(others),
            of_keys: None,
            makers: format!("{} & {}", self.makers, other.makers),
            taken_for_queries: self.taken_for_queries.or(other.taken_for_queries),
        }
    }

    /// # Panics
    /// If the flags do not fit scores of `shape`, or fit them in two ways.
    pub(super) fn check(&self, shape: [usize; 4]) {
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
