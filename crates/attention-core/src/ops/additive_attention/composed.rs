//! The definition.

use burn::backend::tensor::FloatTensor;

use super::AdditiveAttentionInputs;
use crate::ops::{
    AdditiveScoreInputs, AttentionOps, MaskedSoftmaxInputs, WeightedSumInputs, dropout,
};

/// Score, softmax, dropout, weighted sum.
pub(in crate::ops) fn composed<B: AttentionOps>(
    inputs: AdditiveAttentionInputs<B>,
) -> FloatTensor<B> {
    let mask = inputs.mask;
    let scores = B::additive_score(AdditiveScoreInputs {
        queries: inputs.queries,
        keys: inputs.keys,
        weight: inputs.weight,
        mask: mask.clone(),
    });
    let weights = B::masked_softmax(MaskedSoftmaxInputs {
        scores,
        mask: mask.clone(),
    });
    B::weighted_sum(WeightedSumInputs {
        weights: dropout::composed::<B>(weights, inputs.dropout),
        values: inputs.values,
        mask,
    })
}
