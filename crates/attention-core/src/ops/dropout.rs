//! Dropout of attention weights.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Distribution, FloatDType};

/// Dropout on weights, after softmax: each is dropped with `probability` or scaled by `1 / (1 - probability)`.
pub(crate) fn composed<B: Backend>(weights: FloatTensor<B>, probability: f64) -> FloatTensor<B> {
    if probability == 0.0 {
        return weights;
    }
    let keep = 1.0 - probability;
    let (device, dtype) = (weights.device(), weights.dtype().into());
    let is_kept = Distribution::Bernoulli(keep);
    let mask = B::float_random(weights.shape(), is_kept, &device, dtype);
    B::float_mul_scalar(B::float_mul(weights, mask), (1.0 / keep).into())
}

/// The seed of a kernel's generator, drawn from the backend's own generator; `None` if nothing is dropped. It stays on
/// the device of `like`.
pub(super) fn draw_seed<B: Backend>(
    probability: f64,
    like: &FloatTensor<B>,
) -> Option<FloatTensor<B>> {
    let uniform = Distribution::Uniform(0.0, 1.0);
    let draw = || B::float_random([4].into(), uniform, &like.device(), FloatDType::F32);
    (probability != 0.0).then(draw)
}
