//! The definition.

use burn::backend::tensor::FloatTensor;

use super::DotProductAttentionInputs;
use crate::ops::attention_ops::AttentionOps;
use crate::ops::dot_product_score::DotProductScoreInputs;
use crate::ops::dropout;
use crate::ops::largest_tensor::assert_fits;
use crate::ops::score_weights::weights;
use crate::ops::weighted_sum::WeightedSumInputs;

/// Score, softmax, dropout, weighted sum.
pub(in crate::ops) fn forward<B: AttentionOps>(
    inputs: DotProductAttentionInputs<B>,
) -> FloatTensor<B> {
    assert_fits::<B>("dot_product_attention", &inputs.queries, &inputs.keys, 1);
    let mask = inputs.mask;
    let scores = B::dot_product_score(DotProductScoreInputs {
        queries: inputs.queries,
        keys: inputs.keys,
        mask: mask.clone(),
        scale: inputs.scale,
    });
    let weights = weights::<B>(scores, &inputs.modifiers, mask.clone());
    B::weighted_sum(WeightedSumInputs {
        weights: dropout::composed::<B>(weights, inputs.dropout),
        values: inputs.values,
        mask,
    })
}
