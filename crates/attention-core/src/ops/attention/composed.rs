//! The composed definition.

use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::wide::define_in_wide;

use super::AttentionInputs;
use crate::ops::additive_score::AdditiveScoreInputs;
use crate::ops::attention_ops::AttentionOps;
use crate::ops::dot_product_score::DotProductScoreInputs;
use crate::ops::dropout;
use crate::ops::key_heads::{with_axes_of, with_heads};
use crate::ops::largest_tensor::assert_fits;
use crate::ops::score_weights::weights;
use crate::ops::weighted_sum::WeightedSumInputs;

/// Score, softmax, dropout and weighted sum; half precision is computed in f32.
pub(in crate::ops) fn forward<B: AttentionOps>(inputs: AttentionInputs<B>) -> FloatTensor<B> {
    // Only the kernel reads packed keys.
    let inputs = AttentionInputs {
        packed_keys: OptionalTensor::Absent,
        ..inputs
    };
    let [shape, _] = inputs.output_shapes();
    with_axes_of::<B>(define_in_wide(inputs, context), shape)
}

fn context<B: AttentionOps>(inputs: AttentionInputs<B>) -> FloatTensor<B> {
    let name = inputs.operation().name();
    let AttentionInputs { mask, scale, .. } = inputs;
    let [queries, keys, values] = [inputs.queries, inputs.keys, inputs.values].map(with_heads::<B>);
    assert_fits::<B>(name, &queries, &keys, 1);
    assert!(
        inputs.pairwise.is_none() && inputs.modifiers.score_mod.is_none(),
        "attention: expected a device that runs a user's own functions"
    );
    let scores = match inputs.weight.into_option() {
        Some(weight) => B::additive_score(AdditiveScoreInputs {
            queries,
            keys,
            weight,
            mask: mask.clone(),
        }),
        None => B::dot_product_score(DotProductScoreInputs {
            queries,
            keys,
            mask: mask.clone(),
            scale,
        }),
    };
    let weights = weights::<B>(scores, &inputs.modifiers, mask.clone());
    B::weighted_sum(WeightedSumInputs {
        weights: dropout::composed::<B>(weights, inputs.dropout),
        values,
        mask,
    })
}
