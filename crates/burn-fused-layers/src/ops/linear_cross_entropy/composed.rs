//! The composed definition.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};

use super::LinearCrossEntropyInputs;

/// The loss and the predictions.
pub(crate) fn forward<B: Backend>(
    inputs: LinearCrossEntropyInputs<B>,
) -> (FloatTensor<B>, IntTensor<B>) {
    let (mut input, factors) = (inputs.input, inputs.factors.into_option());
    let ([input_rows, size], [rows]) = (input.shape().dims(), inputs.targets.shape().dims());
    let settings = get_device_settings::<B>(&input.device());
    let parts = input_rows.checked_div(rows).unwrap_or(1);
    if parts != 1 {
        input = B::float_reshape(input, [parts, rows, size].into());
        input = B::float_swap_dims(input, 0, 1);
        input = B::float_reshape(input, [rows, parts * size].into());
    }
    let mut logits = B::linear(input, inputs.weight, inputs.bias.into_option());
    let [_, classes] = logits.shape().dims();
    let constant = B::float_detach(logits.clone());
    let predictions = B::float_argmax(constant, 1, settings.int_dtype);
    if let Some(factors) = &factors {
        // A row with factor 0 must not spoil sums and gradients.
        let is_zero = B::float_equal_elem(factors.clone(), 0.0.into(), settings.bool_dtype);
        let is_zero = B::bool_reshape(is_zero, [rows, 1].into());
        let is_zero = B::bool_expand(is_zero, [rows, classes].into());
        logits = B::float_mask_fill(logits, is_zero, 0.0.into());
    }
    let constant = B::float_detach(logits.clone());
    let shifted = B::float_sub(logits, B::float_max_dim(constant, 1));
    let sums = B::float_sum_dim(B::float_exp(shifted.clone()), 1);
    let targets = B::int_reshape(inputs.targets, [rows, 1].into());
    let mut hits = B::float_gather(1, shifted.clone(), targets);
    let smoothing = inputs.label_smoothing;
    if smoothing > 0.0 {
        let means = B::float_mul_scalar(B::float_mean_dim(shifted, 1), smoothing.into());
        hits = B::float_mul_scalar(hits, (1.0 - smoothing).into());
        hits = B::float_add(hits, means);
    }
    let losses = B::float_sub(B::float_log(sums), hits);
    let mut losses = B::float_reshape(losses, [rows].into());
    if let Some(factors) = factors {
        losses = B::float_mul(losses, factors);
    }
    let loss = B::float_reshape(B::float_sum(losses), [1].into());
    (loss, B::int_reshape(predictions, [rows].into()))
}
