//! A linear layer to classes with its loss.

pub(crate) mod composed;
pub(crate) mod cpu;

use burn::backend::tensor::{FloatTensor, IntTensor};

use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::linear_cross_entropy`](super::LayerOps::linear_cross_entropy).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct LinearCrossEntropyInputs[3] {
        /// The features of all rows, part by part: `[parts * rows, size]`, a row for each target.
        tracked input: FloatTensor<B>,
        /// `[parts * size, classes]`
        tracked weight: FloatTensor<B>,
        /// `[classes]`
        #[extension_type]
        tracked_option bias: OptionalTensor<B>,
        /// The class of each row, `[rows]`.
        same targets: IntTensor<B>,
        /// The factor on the loss of each row, `[rows]`; 1 if absent. It has no gradient.
        #[extension_type]
        constant factors: OptionalTensor<B>,
        /// The part of each target that is spread over all classes.
        same label_smoothing: f64,
    }
}
