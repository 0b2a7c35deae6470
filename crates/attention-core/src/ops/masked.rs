//! Masked pairs and padding in the definitions.
//!
//! A masked key must leak neither forward nor backward. A forward pass would leak through `0 * NaN` in the weighted
//! sum, a backward pass through `0 * NaN` in the gradients. So a masked element is replaced by a finite one *before*
//! the product that would multiply it by zero: `mask_fill` has gradient 0 where it fills.
//!
//! A key that no query attends to (padding) is simply filled. A key that only some queries attend to (causal masks)
//! must reach exactly these queries; see [`Split`].

use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::{BoolDType, DType, IntDType, Shape};
use burn_fused_layers::harness::upload::upload;

use super::mask::ResolvedMask;

/// The masked pairs of query and key, true where masked: `[batch or 1, heads or 1, queries or 1, keys]`.
pub(crate) struct Masked<B: Backend>(Option<BoolTensor<B>>);

impl<B: Backend> Masked<B> {
    /// The pairs of a mask for `num_keys` keys, on the device of `like`.
    pub(crate) fn new(mask: ResolvedMask<B>, num_keys: usize, like: &FloatTensor<B>) -> Self {
        let device = like.device();
        if let ResolvedMask::Host { mask } = mask {
            let (masked, shape) = mask.masked_pairs(num_keys);
            return Self(Some(upload::<B>(masked, shape, &device)));
        }
        let (intervals, keep) = mask.to_device(num_keys, &device);
        let outside = intervals.map(|[start, end]| outside::<B>(start, end, num_keys, &device));
        let dropped = keep.map(|keep| {
            let [batch, heads, queries, _] = keep.shape().dims();
            let shape = [batch, heads, queries, num_keys];
            B::bool_not(B::bool_expand(keep, shape.into()))
        });
        Self(match (outside, dropped) {
            (Some(outside), Some(dropped)) => Some(broadcast_or::<B>(outside, dropped)),
            (outside, dropped) => outside.or(dropped),
        })
    }

    pub(super) fn or(self, other: BoolTensor<B>) -> Self {
        Self(Some(match self.0 {
            Some(masked) => broadcast_or::<B>(masked, other),
            None => other,
        }))
    }

    /// Whether queries of one example may attend to different keys.
    pub(super) fn differs_per_query(&self) -> bool {
        self.0.as_ref().is_some_and(|masked| masked.shape()[2] > 1)
    }

    /// True for a query all of whose keys are masked, `[batch or 1, heads or 1, queries or 1, 1]`.
    pub(super) fn all_keys(self) -> Option<BoolTensor<B>> {
        self.0.map(|masked| B::bool_all_dim(masked, 3))
    }

    /// Fills `[batch, heads, queries, keys]` where masked.
    pub(crate) fn fill(&self, tensor: FloatTensor<B>, value: f64) -> FloatTensor<B> {
        match &self.0 {
            Some(masked) => {
                let masked = B::bool_expand(masked.clone(), tensor.shape());
                B::float_mask_fill(tensor, masked, value.into())
            }
            None => tensor,
        }
    }

    /// Fills `[batch, heads, queries, keys, size]` where masked, if that differs per query.
    pub(super) fn fill_pairs(&self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        match &self.0 {
            Some(masked) if self.differs_per_query() => {
                let [batch, heads, queries, keys] = masked.shape().dims();
                let shape = Shape::from([batch, heads, queries, keys, 1]);
                let masked = B::bool_reshape(masked.clone(), shape);
                let masked = B::bool_expand(masked, tensor.shape());
                B::float_mask_fill(tensor, masked, 0.0.into())
            }
            _ => tensor,
        }
    }

    /// Fills the rows of `[batch, key_heads, keys, size]` that no query attends to.
    pub(super) fn fill_padding(&self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        let Some(masked) = &self.0 else {
            return tensor;
        };
        let mut padding = masked.clone();
        if self.differs_per_query() {
            padding = B::bool_all_dim(padding, 2);
        }
        let [batch, heads, _, keys] = padding.shape().dims();
        let [_, key_heads, _, _] = tensor.shape().dims();
        if heads > key_heads {
            let group = heads / key_heads;
            padding = B::bool_reshape(padding, [batch, key_heads, group, keys].into());
            padding = B::bool_all_dim(padding, 2);
        }
        let padding = B::bool_swap_dims(padding, 2, 3);
        let padding = B::bool_expand(padding, tensor.shape());
        B::float_mask_fill(tensor, padding, 0.0.into())
    }

    /// Whether a query attends to a key flagged in `[batch, heads, keys, size]`, `[batch, heads, queries, size]`.
    pub(super) fn reached_by(&self, flags: BoolTensor<B>) -> BoolTensor<B> {
        let [batch, heads, num_keys, _] = flags.shape().dims();
        let settings = get_device_settings::<B>(&flags.device());
        let masked = self.0.clone();
        let masked = masked.expect("only asked of masks that differ per query");
        let [_, _, queries, _] = masked.shape().dims();
        let shape = Shape::from([batch, heads, queries, num_keys]);
        let attended = B::bool_expand(B::bool_not(masked), shape);
        let attended = B::bool_into_float(attended, settings.float_dtype);
        let flags = B::bool_into_float(flags, settings.float_dtype);
        let count = B::float_matmul(attended, flags);
        B::float_greater_elem(count, 0.0.into(), settings.bool_dtype)
    }
}

/// The finite part of a tensor, and where its other elements are. Multiplying by the finite part is safe where a masked
/// factor is 0; the other elements are added by selections, which do not mix queries.
pub(super) struct Split<B: Backend> {
    pub(super) finite: FloatTensor<B>,
    pub(super) is_not_finite: BoolTensor<B>,
}

impl<B: Backend> Split<B> {
    pub(super) fn new(tensor: FloatTensor<B>) -> Self {
        let bool_dtype = bool_dtype::<B>(&tensor);
        let info = tensor.dtype().finfo();
        let largest = info.map_or(f64::from(f32::MAX), |info| info.max);
        // NaN compares false, and infinity is larger.
        let magnitude = B::float_abs(B::float_detach(tensor.clone()));
        let is_finite = B::float_lower_equal_elem(magnitude, largest.into(), bool_dtype);
        let is_not_finite = B::bool_not(is_finite);
        Self {
            finite: B::float_mask_fill(tensor, is_not_finite.clone(), 0.0.into()),
            is_not_finite,
        }
    }
}

/// True where a key lies outside its query's interval.
fn outside<B: Backend>(
    start: IntTensor<B>,
    end: IntTensor<B>,
    num_keys: usize,
    device: &Device<B>,
) -> BoolTensor<B> {
    let bool_dtype = get_device_settings::<B>(device).bool_dtype;
    let [batch, _, queries, _] = end.shape().dims();
    let shape = Shape::from([batch, 1, queries, num_keys]);
    let int_dtype = IntDType::from(end.dtype());
    let keys = B::int_arange(0..num_keys as i64, device, int_dtype);
    let keys = B::int_reshape(keys, [1, 1, 1, num_keys].into());
    let [keys, start, end] = [keys, start, end].map(|of| B::int_expand(of, shape.clone()));
    let before = B::int_lower(keys.clone(), start, bool_dtype);
    let after = B::int_greater_equal(keys, end, bool_dtype);
    B::bool_or(before, after)
}

pub(super) fn broadcast_or<B: Backend>(lhs: BoolTensor<B>, rhs: BoolTensor<B>) -> BoolTensor<B> {
    let lhs_dims = lhs.shape().dims::<4>();
    let rhs_dims = rhs.shape().dims::<4>();
    let shape: [usize; 4] = std::array::from_fn(|axis| lhs_dims[axis].max(rhs_dims[axis]));
    let [lhs, rhs] = [lhs, rhs].map(|flags| B::bool_expand(flags, shape.into()));
    B::bool_or(lhs, rhs)
}

pub(super) fn bool_dtype<B: Backend>(like: &FloatTensor<B>) -> BoolDType {
    get_device_settings::<B>(&like.device()).bool_dtype
}

/// The most negative finite number of the type in which scores of `dtype` are computed.
pub(crate) fn lowest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN,
        _ => f64::from(f32::MIN),
    }
}
