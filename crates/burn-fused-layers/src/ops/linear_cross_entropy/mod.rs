//! A linear layer to classes with its loss.

pub(crate) mod composed;
pub(crate) mod cpu;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};

use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::tracked_inputs;

/// Inputs of [`LayerOps::linear_cross_entropy`](super::LayerOps::linear_cross_entropy).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct LinearCrossEntropyInputs<B: Backend> {
    /// The features of all rows, part by part: `[parts * rows, size]`, a row for each target.
    pub input: FloatTensor<B>,
    /// `[parts * size, classes]`
    pub weight: FloatTensor<B>,
    /// `[classes]`
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// The class of each row, `[rows]`.
    pub targets: IntTensor<B>,
    /// The factor on the loss of each row, `[rows]`, or else 1; it has no gradient.
    #[extension_type]
    pub factors: OptionalTensor<B>,
    /// The share of each target that is spread over all classes.
    pub label_smoothing: f64,
}

tracked_inputs!(LinearCrossEntropyInputs[3], first: input, {
    input: tracked,
    weight: tracked,
    bias: tracked_option,
    targets: same,
    factors: constant,
    label_smoothing: same,
});
