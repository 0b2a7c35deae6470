//! Padding cleared, and queries that attend to no key: what they hold must not reach a gradient through a product.

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, Dispatch, ExtensionType, TensorMetadata};
use burn::tensor::Tensor;

use super::masked::{Masked, bool_dtype, upload};
use super::{AttentionOps, ResolvedMask};
use crate::Mask;

/// Inputs of [`AttentionOps::fill_padding`].
#[derive(Clone, Debug, ExtensionType)]
pub struct FillPaddingInputs<B: Backend> {
    /// Keys or values, `[batch, key_heads, keys, size]`; `key_heads` divides the heads of the mask.
    pub tensor: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
}

/// Zeros for the keys (or values) that no query of any head which reads them attends to.
///
/// # Shapes
/// - tensor and result `[batch, key_heads, keys, size]`, for `[heads, queries]` of queries
///
/// # Panics
/// If the mask does not fit, or `key_heads` does not divide `heads`.
pub fn fill_padding(tensor: Tensor<4>, mask: &Mask, [heads, num_queries]: [usize; 2]) -> Tensor<4> {
    let [batch, key_heads, num_keys, size] = tensor.dims();
    super::key_heads::assert_divides("fill_padding", key_heads, heads);
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &tensor.device());
    let is_empty = batch * heads * num_queries * num_keys * size == 0;
    if matches!(mask, ResolvedMask::None) || is_empty {
        return tensor;
    }
    let inputs = FillPaddingInputs {
        tensor: tensor.into_dispatch(),
        mask,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::fill_padding(inputs))
}

/// Zeros for the queries that attend to no key in any head, before a projection whose gradient would multiply by what
/// they hold.
///
/// # Shapes
/// - queries and result `[batch, heads or 1, queries, size]`, for `heads` heads of `num_keys` keys
///
/// # Panics
/// If the mask does not fit.
pub(crate) fn fill_keyless(
    queries: Tensor<4>,
    mask: &Mask,
    [heads, num_keys]: [usize; 2],
) -> Tensor<4> {
    let [batch, own_heads, num_queries, size] = queries.dims();
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &queries.device());
    if batch * heads * num_queries * num_keys * size == 0 {
        return queries;
    }
    let queries = queries.into_dispatch();
    Tensor::from_dispatch(
        match keyless(mask, num_keys, own_heads == heads, &queries) {
            Some(keyless) => {
                let keyless = Dispatch::bool_expand(keyless, queries.shape());
                Dispatch::float_mask_fill(queries, keyless, 0.0.into())
            }
            None => queries,
        },
    )
}

/// True for queries that attend to no key, `[batch or 1, heads or 1, queries or 1, 1]`: in each head, or else in all.
/// `None` if there is none. Intervals stay intervals.
fn keyless(
    mask: ResolvedMask<Dispatch>,
    num_keys: usize,
    of_each_head: bool,
    like: &FloatTensor<Dispatch>,
) -> Option<BoolTensor<Dispatch>> {
    let flags = match mask {
        ResolvedMask::None => return None,
        ResolvedMask::Host { mask } => {
            let (flags, shape) = mask.keyless(num_keys)?;
            upload::<Dispatch>(flags, shape, &like.device())
        }
        ResolvedMask::Intervals { start, end } => {
            Dispatch::int_lower_equal(end, start, bool_dtype::<Dispatch>(like))
        }
        mask => Masked::<Dispatch>::new(mask, num_keys, like).keyless()?,
    };
    if of_each_head {
        Some(flags)
    } else {
        Some(Dispatch::bool_all_dim(flags, 1))
    }
}

/// The definition. A mask on the host is walked there.
pub(super) fn composed<B: Backend>(inputs: FillPaddingInputs<B>) -> FloatTensor<B> {
    let FillPaddingInputs { tensor, mask } = inputs;
    let [_, key_heads, num_keys, _] = tensor.shape().dims();
    let ResolvedMask::Host { mask } = &mask else {
        return Masked::<B>::new(mask, num_keys, &tensor).fill_padding(tensor);
    };
    match mask.padding(key_heads, num_keys) {
        Some((padding, [batch, heads, _])) => {
            let padding = upload::<B>(padding, [batch, heads, num_keys, 1], &tensor.device());
            let padding = B::bool_expand(padding, tensor.shape());
            B::float_mask_fill(tensor, padding, 0.0.into())
        }
        None => tensor,
    }
}
