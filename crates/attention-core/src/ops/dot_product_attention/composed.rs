//! The definition.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;

use super::DotProductAttentionInputs;
use crate::ops::{
    AttentionOps, DotProductScoreInputs, MaskedSoftmaxInputs, WeightedSumInputs, dropout,
};

/// Score and bias, softmax, dropout, weighted sum.
pub(in crate::ops) fn composed<B: AttentionOps>(
    inputs: DotProductAttentionInputs<B>,
) -> FloatTensor<B> {
    let mask = inputs.mask;
    let dtype = inputs.queries.dtype();
    let mut scores = B::dot_product_score(DotProductScoreInputs {
        queries: inputs.queries,
        keys: inputs.keys,
        mask: mask.clone(),
        scale: inputs.scale,
    });
    if let Some(bias) = inputs.bias.into_option() {
        // A bias may be more precise than the scores.
        if bias.dtype() != dtype {
            scores = B::float_cast(scores, bias.dtype().into());
        }
        scores = B::float_add(scores, bias);
    }
    let mut weights = B::masked_softmax(MaskedSoftmaxInputs {
        scores,
        mask: mask.clone(),
    });
    if weights.dtype() != dtype {
        weights = B::float_cast(weights, dtype.into());
    }
    B::weighted_sum(WeightedSumInputs {
        weights: dropout::composed::<B>(weights, inputs.dropout),
        values: inputs.values,
        mask,
    })
}
