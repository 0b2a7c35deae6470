//! Normalizations of rows.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::tracked_inputs;

/// Inputs of [`LayerOps::normalize`](super::LayerOps::normalize), in f32 or f64.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct NormalizeInputs<B: Backend> {
    /// `[rows, size]`
    pub input: FloatTensor<B>,
    /// The factor of each feature, `[size]`.
    pub gain: FloatTensor<B>,
    /// The number that is added to each feature, `[size]`.
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// The number that is added to the variance, or to the mean square.
    pub epsilon: f64,
    /// Whether rows are normalized by mean and variance, rather than by the mean square.
    pub is_centered: bool,
}

tracked_inputs!(NormalizeInputs[3], first: input, {
    input: tracked,
    gain: tracked,
    bias: tracked_option,
    epsilon: same,
    is_centered: same,
});

/// The inputs, and the numbers that normalized each row: what the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Normalized<B: Backend> {
    inputs: NormalizeInputs<B>,
    /// The mean, 0 where rows are not centered, and `1 / sqrt(variance + epsilon)`: `[rows, 2]`.
    statistics: FloatTensor<B>,
}
