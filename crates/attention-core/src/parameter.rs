//! Vectors that modules store as a linear layer with one column.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::wide::{in_wide, widened};

/// The only column of a linear layer `[size, 1]`, `[size]`.
pub(crate) fn column(layer: &Linear) -> Tensor<1> {
    let weight = value(&layer.weight);
    let [size, _] = weight.dims();
    weight.reshape([size])
}

/// `gain w / |w|`, where `w` is the only [`column`] of a linear layer: length and direction are learned separately
/// (Salimans & Kingma 2016, "Weight Normalization").
pub(crate) fn normalized_column(layer: &Linear, gain: &Param<Tensor<1>>) -> Tensor<1> {
    in_wide(column(layer), |direction| {
        let length = direction.clone().square().sum().sqrt();
        direction * (widened(value(gain)) / length)
    })
}
