//! The definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn_fused_layers::harness::wide::define_in_wide;

use super::MaskedSoftmaxInputs;
use crate::ops::masked::{Masked, bool_dtype, lowest};

/// `exp(score - max) / sum`; half precision is computed in f32.
pub(in crate::ops) fn forward<B: Backend>(inputs: MaskedSoftmaxInputs<B>) -> FloatTensor<B> {
    with_sinks(inputs, None)
}

/// [`forward`], with a logit per head whose weight goes to no key, `[heads]`.
pub(in crate::ops) fn with_sinks<B: Backend>(
    inputs: MaskedSoftmaxInputs<B>,
    sinks: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    define_in_wide(inputs, |inputs| weights(inputs, sinks))
}

fn weights<B: Backend>(
    inputs: MaskedSoftmaxInputs<B>,
    sinks: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    let MaskedSoftmaxInputs { scores, mask } = inputs;
    let [_, _, _, num_keys] = scores.shape().dims();
    let masked = Masked::<B>::new(mask, num_keys, &scores);
    // The most negative finite number replaces masked scores: as it is finite, so is the maximum of a row without any
    // key. A user's own `-inf` lies below it and counts as masked.
    let lowest = lowest(scores.dtype());
    let minus_infinity =
        B::float_lower_elem(scores.clone(), lowest.into(), bool_dtype::<B>(&scores));
    let masked = masked.or(minus_infinity);

    let scores = masked.fill(scores, lowest);
    let mut row_max = B::float_max_dim(B::float_detach(scores.clone()), 3);
    let sinks = sinks.map(|sinks| {
        let [heads] = sinks.shape().dims();
        let sinks = B::float_cast(sinks, scores.dtype().into());
        let sinks = B::float_reshape(sinks, [1, heads, 1, 1].into());
        B::float_expand(sinks, row_max.shape())
    });
    if let Some(sinks) = &sinks {
        let sinks = B::float_detach(sinks.clone());
        let is_above = B::float_lower(row_max.clone(), sinks.clone(), bool_dtype::<B>(&sinks));
        row_max = B::float_mask_where(row_max, is_above, sinks);
    }
    let exp = masked.fill(B::float_exp(B::float_sub(scores, row_max.clone())), 0.0);
    let mut sum = B::float_sum_dim(exp.clone(), 3);
    if let Some(sinks) = sinks {
        sum = B::float_add(sum, B::float_exp(B::float_sub(sinks, row_max)));
    }
    // The largest score contributes 1, so a sum of 0 means that there are no keys.
    let empty = B::float_equal_elem(sum.clone(), 0.0.into(), bool_dtype::<B>(&sum));
    let sum = B::float_mask_fill(sum, empty, 1.0.into());
    // Filled again: a NaN in the gradient of a masked weight must not enter the row's sum.
    masked.fill(B::float_div(exp, sum), 0.0)
}
