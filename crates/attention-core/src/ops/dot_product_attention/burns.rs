//! By Burn's own attention, which has kernels for matrix units on some devices.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;
use burn::tensor::ops::AttentionModuleOptions;

use super::DotProductAttentionInputs;

/// Attention without a mask, changes to the scores and dropout, whose scores are divided by the square root of the
/// size.
pub(in crate::ops) fn forward<B: Backend>(inputs: DotProductAttentionInputs<B>) -> FloatTensor<B> {
    let DotProductAttentionInputs {
        queries,
        keys,
        values,
        ..
    } = inputs;
    let options = AttentionModuleOptions::default();
    B::attention(queries, keys, values, None, None, options)
}
