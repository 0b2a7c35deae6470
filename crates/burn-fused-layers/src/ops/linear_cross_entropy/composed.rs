//! The composed definition.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};

use super::LinearCrossEntropyInputs;

/// The loss and the predictions.
pub(crate) fn forward<B: Backend>(
    inputs: LinearCrossEntropyInputs<B>,
) -> (FloatTensor<B>, IntTensor<B>) {
    let LinearCrossEntropyInputs {
        input,
        weight,
        bias,
        targets,
        factors,
        label_smoothing,
    } = inputs;
    let ([input_rows, size], [rows]) = (input.shape().dims(), targets.shape().dims());
    let settings = get_device_settings::<B>(&input.device());
    let parts = input_rows.checked_div(rows).unwrap_or(1);
    let input = if parts == 1 {
        input
    } else {
        let input = B::float_reshape(input, [parts, rows, size].into());
        let input = B::float_swap_dims(input, 0, 1);
        B::float_reshape(input, [rows, parts * size].into())
    };
    let logits = B::linear(input, weight, bias.into_option());
    let [_, classes] = logits.shape().dims();
    let constant = B::float_detach(logits.clone());
    let predictions = B::float_argmax(constant, 1, settings.int_dtype);
    let logits = match factors.as_option() {
        Some(factors) => {
            // A row with factor 0 must not spoil sums and gradients.
            let is_zero = B::float_equal_elem(factors.clone(), 0.0.into(), settings.bool_dtype);
            let is_zero = B::bool_reshape(is_zero, [rows, 1].into());
            let is_zero = B::bool_expand(is_zero, [rows, classes].into());
            B::float_mask_fill(logits, is_zero, 0.0.into())
        }
        None => logits,
    };
    let constant = B::float_detach(logits.clone());
    let shifted = B::float_sub(logits, B::float_max_dim(constant, 1));
    let sums = B::float_sum_dim(B::float_exp(shifted.clone()), 1);
    let targets = B::int_reshape(targets, [rows, 1].into());
    let hits = B::float_gather(1, shifted.clone(), targets);
    let hits = if label_smoothing > 0.0 {
        let means = B::float_mul_scalar(B::float_mean_dim(shifted, 1), label_smoothing.into());
        let hits = B::float_mul_scalar(hits, (1.0 - label_smoothing).into());
        B::float_add(hits, means)
    } else {
        hits
    };
    let losses = B::float_sub(B::float_log(sums), hits);
    let losses = B::float_reshape(losses, [rows].into());
    let losses = match factors.into_option() {
        Some(factors) => B::float_mul(losses, factors),
        None => losses,
    };
    let loss = B::float_reshape(B::float_sum(losses), [1].into());
    (loss, B::int_reshape(predictions, [rows].into()))
}
