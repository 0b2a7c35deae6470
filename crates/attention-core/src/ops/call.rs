//! A call, described by what decides how long its kernel and its definition take.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::DType;
use burn_fused_layers::paths::Operation;

use super::mask::{DeviceMask, ResolvedMask};

/// A call of an operation on pairs of queries and keys.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    not(all(feature = "autotune", feature = "cubecl-backend")),
    allow(dead_code, reason = "a device that tries asks")
)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) dtype: DType,
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// The features of queries and keys; 0 of an operation on scores.
    pub(super) size: usize,
    /// 0 of an operation without values.
    pub(super) value_size: usize,
    pub(super) mask: MaskForm,
    pub(super) modifiers: ModifierForms,
    pub(super) has_dropout: bool,
    /// The tensors whose gradients are wanted, in the inputs' order; none in inference.
    pub(super) wanted: Vec<bool>,
}

/// The shapes of a mask on a device.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    not(all(feature = "autotune", feature = "cubecl-backend")),
    allow(dead_code, reason = "a device that tries asks")
)]
pub(super) struct MaskForm {
    /// `[batch or 1, queries or 1]`
    pub(super) intervals: Option<[usize; 2]>,
    /// `[batch or 1, heads or 1, queries or 1, keys or 1]`
    pub(super) keep: Option<[usize; 4]>,
}

impl MaskForm {
    pub(super) fn of<B: Backend>(mask: &ResolvedMask<B>, num_keys: usize) -> Self {
        let intervals = |end: &IntTensor<B>| {
            let [batch, _, queries, _] = end.shape().dims();
            Some([batch, queries])
        };
        match mask {
            ResolvedMask::None => Self::default(),
            // A device has them as flags.
            ResolvedMask::Host { mask } => {
                let [batch, heads, queries] = mask.view().shape();
                Self {
                    intervals: None,
                    keep: Some([batch, heads, queries, num_keys]),
                }
            }
            ResolvedMask::Device { mask } => match mask {
                DeviceMask::Intervals { end, .. } => Self {
                    intervals: intervals(end),
                    keep: None,
                },
                DeviceMask::Keep { keep } => Self {
                    intervals: None,
                    keep: Some(keep.shape().dims()),
                },
                DeviceMask::IntervalsAndKeep { end, keep, .. } => Self {
                    intervals: intervals(end),
                    keep: Some(keep.shape().dims()),
                },
            },
        }
    }
}

/// The shapes and types of changes to the scores.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    not(all(feature = "autotune", feature = "cubecl-backend")),
    allow(dead_code, reason = "a device that tries asks")
)]
pub(super) struct ModifierForms {
    pub(super) bias: Option<([usize; 4], DType)>,
    pub(super) relative_bias: Option<([usize; 4], DType)>,
    pub(super) sinks: Option<DType>,
    pub(super) soft_cap: Option<f64>,
}

impl Call {
    /// An operation on `queries` and `keys` in inference, without anything else.
    pub(super) fn of_pairs<B: Backend>(
        operation: Operation,
        queries: &FloatTensor<B>,
        keys: &FloatTensor<B>,
        mask: &ResolvedMask<B>,
    ) -> Self {
        let [batch, heads, num_queries, size] = queries.shape().dims();
        let [_, key_heads, num_keys, _] = keys.shape().dims();
        Self {
            operation,
            dtype: queries.dtype(),
            batch,
            heads,
            key_heads,
            queries: num_queries,
            keys: num_keys,
            size,
            value_size: 0,
            mask: MaskForm::of(mask, num_keys),
            modifiers: ModifierForms::default(),
            has_dropout: false,
            wanted: Vec::new(),
        }
    }

    /// An attention in inference.
    pub(super) fn of_attention<B: Backend>(
        operation: Operation,
        [queries, keys, values]: [&FloatTensor<B>; 3],
        modifiers: ModifierForms,
        mask: &ResolvedMask<B>,
        dropout: f64,
    ) -> Self {
        let [.., value_size] = values.shape().dims::<4>();
        Self {
            value_size,
            modifiers,
            has_dropout: dropout != 0.0,
            ..Self::of_pairs(operation, queries, keys, mask)
        }
    }

    /// The same where these gradients are wanted.
    #[cfg(feature = "autodiff")]
    pub(super) fn wanting<const N: usize>(self, wanted: [bool; N]) -> Self {
        let is_training = wanted.contains(&true);
        Self {
            wanted: if is_training {
                wanted.to_vec()
            } else {
                Vec::new()
            },
            ..self
        }
    }
}
