//! Activations, with and without a gate.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use cpu_kernels::Activation;

use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::activate`](super::LayerOps::activate), in f32 or f64.
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct ActivateInputs[2] {
        /// The elements that the function is applied to, of any shape.
        tracked input: FloatTensor<B>,
        /// The factor of each result, of the same shape.
        #[extension_type]
        tracked_option factor: OptionalTensor<B>,
        /// The function.
        same function: Activation,
    }
}
