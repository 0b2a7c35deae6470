//! Zeros for padding and for all that a mask removes: its content must not reach a gradient through a product.

use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::Tensor;

use super::key_heads::assert_divides;
use crate::mask::Mask;
use crate::ops::{AttentionOps, FillPaddingInputs, Masked, ResolvedMask, fill_rows_without_key};
use crate::rank::Sequences;

/// Fills keys (or values) with zeros where no query of any head that reads them attends.
///
/// # Shapes
/// - tensor and result `[batch, key_heads, keys, size]`, for queries of `[heads, queries]`
///
/// # Panics
/// If the mask does not fit, or `key_heads` does not divide `heads`.
pub fn fill_padding(tensor: Tensor<4>, mask: &Mask, queries: [usize; 2]) -> Tensor<4> {
    clear_padding(tensor.into(), mask, queries).into_tensor()
}

/// [`fill_padding`] of keys or values that may lack the heads axis.
pub(crate) fn clear_padding(
    rows: Sequences,
    mask: &Mask,
    [heads, num_queries]: [usize; 2],
) -> Sequences {
    if mask.is_none() {
        return rows;
    }
    let [batch, key_heads, num_keys, size] = rows.dims();
    assert_divides("fill_padding", key_heads, heads);
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &rows.device());
    if batch * heads * num_queries * num_keys * size == 0 {
        return rows;
    }
    let inputs = FillPaddingInputs {
        tensor: rows.into_tensor::<4>().into_dispatch(),
        mask,
    };
    Sequences::of_dispatch(<Dispatch as AttentionOps>::fill_padding(inputs))
}

/// Fills queries that attend to no key in any head with zeros, before a projection whose gradient would multiply by
/// them.
///
/// # Shapes
/// - queries and result `[batch, heads or 1, queries, size]`, for `heads` heads of `num_keys` keys
///
/// # Panics
/// If the mask does not fit.
pub(crate) fn fill_keyless(
    queries: Sequences,
    mask: &Mask,
    [heads, num_keys]: [usize; 2],
) -> Sequences {
    if mask.is_none() {
        return queries;
    }
    let [batch, _, num_queries, size] = queries.dims();
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &queries.device());
    if batch * heads * num_queries * num_keys * size == 0 {
        return queries;
    }
    let queries = queries.into_tensor::<4>().into_dispatch();
    Sequences::of_dispatch(fill_rows_without_key::<Dispatch>(queries, &mask, num_keys))
}

/// Fills each masked pair of query and key with `value`; the old element reaches neither result nor gradients.
///
/// # Shapes
/// - pairs and result `[batch, heads, queries, keys]`
///
/// # Panics
/// If the mask does not fit.
pub(crate) fn fill_masked(pairs: Tensor<4>, mask: &Mask, value: f64) -> Tensor<4> {
    let mask = mask.resolve(pairs.dims(), &pairs.device());
    if matches!(mask, ResolvedMask::None) || pairs.dims().contains(&0) {
        return pairs;
    }
    let pairs = pairs.into_dispatch();
    let [_, _, _, num_keys] = pairs.shape().dims();
    let masked = Masked::<Dispatch>::new(mask, num_keys, &pairs);
    Tensor::from_dispatch(masked.fill(pairs, value))
}
