//! Zeros for padding and for queries that attend to no key: their content must not reach a gradient through a product.

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, ExtensionType, TensorMetadata};
use burn_fused_layers::harness::upload::upload;

use super::mask::{DeviceMask, ResolvedMask};
use super::masked::{Masked, bool_dtype};

/// Inputs of [`AttentionOps::fill_padding`](super::AttentionOps::fill_padding).
#[derive(Clone, Debug, ExtensionType)]
pub struct FillPaddingInputs<B: Backend> {
    /// Keys or values, `[batch, key_heads, keys, size]`; `key_heads` divides the heads of the mask.
    pub tensor: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
}

/// Fills rows of queries with zeros if they attend to none of `num_keys` keys (in their own head, or in any head where
/// all heads share the rows), so that neither their content nor a gradient they receive goes anywhere.
///
/// # Shapes
/// - rows and result `[batch, heads or 1, queries, size]`
pub(crate) fn fill_rows_without_key<B: Backend>(
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

/// True for a query that attends to no key, `[batch or 1, heads or 1, queries or 1, 1]`; `None` if every query is known
/// to attend to one.
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
        ResolvedMask::Device {
            mask: DeviceMask::Intervals { start, end },
        } => {
            let bool_dtype = bool_dtype::<B>(like);
            Some(B::int_lower_equal(end.clone(), start.clone(), bool_dtype))
        }
        _ => Masked::<B>::new(mask.clone(), num_keys, like).all_keys(),
    }
}

/// The composed definition. A mask on the host is walked there.
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
