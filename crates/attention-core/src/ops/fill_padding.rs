//! Padding cleared, and queries that attend to no key: what they hold must not reach a gradient through a product.

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
    let [batch, _, num_queries, size] = queries.dims();
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &queries.device());
    if batch * heads * num_queries * num_keys * size == 0 {
        return queries;
    }
    let queries = fill_rows_without_key::<Dispatch>(queries.into_dispatch(), &mask, num_keys);
    Tensor::from_dispatch(queries)
}

/// Zeros for the rows of queries that attend to none of `num_keys` keys, in the row's head or, where the rows have but
/// one, in any: what they hold, or receive as a gradient, goes nowhere.
///
/// # Shapes
/// - rows and result `[batch, heads or 1, queries, size]`
pub(super) fn fill_rows_without_key<B: Backend>(
    rows: FloatTensor<B>,
    mask: &ResolvedMask<B>,
    num_keys: usize,
) -> FloatTensor<B> {
    let Some(mut keyless) = without_key::<B>(&rows, mask, num_keys) else {
        return rows;
    };
    if keyless.shape()[1] > rows.shape()[1] {
        keyless = B::bool_all_dim(keyless, 1);
    }
    let keyless = B::bool_expand(keyless, rows.shape());
    B::float_mask_fill(rows, keyless, 0.0.into())
}

/// True for a query that attends to no key, `[batch or 1, heads or 1, queries or 1, 1]`; `None` if it is known that
/// there is none.
fn without_key<B: Backend>(
    like: &FloatTensor<B>,
    mask: &ResolvedMask<B>,
    num_keys: usize,
) -> Option<BoolTensor<B>> {
    match mask {
        ResolvedMask::None => None,
        ResolvedMask::Host { mask } => {
            let (keyless, shape) = mask.keyless(num_keys)?;
            Some(upload::<B>(keyless, shape, &like.device()))
        }
        ResolvedMask::Intervals { start, end } => {
            let bool_dtype = bool_dtype::<B>(like);
            Some(B::int_lower_equal(end.clone(), start.clone(), bool_dtype))
        }
        _ => Masked::<B>::new(mask.clone(), num_keys, like).all_keys(),
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
