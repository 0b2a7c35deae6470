//! Normalizations of rows.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::normalize`](super::LayerOps::normalize), in f32 or f64.
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct NormalizeInputs[3] {
        /// `[.., size]`
        tracked input: FloatTensor<B>,
        /// The factor of each feature, `[size]`.
        tracked gain: FloatTensor<B>,
        /// The number added to each feature, `[size]`.
        #[extension_type]
        tracked_option bias: OptionalTensor<B>,
        /// The number added to the variance, or to the mean square.
        same epsilon: f64,
        /// Whether rows are normalized by mean and variance, instead of by the mean square.
        same is_centered: bool,
    }
}

/// The state for the backward pass: the inputs, and the numbers that normalized each row.
#[derive(Clone, Debug)]
pub(crate) struct Normalized<B: Backend> {
    inputs: NormalizeInputs<B>,
    /// The mean, 0 if rows are not centered, and `1 / sqrt(variance + epsilon)`: `[rows, 2]`.
    statistics: FloatTensor<B>,
}
