//! Activations, gated or not.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use cpu_kernels::Activation;

use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::tracked_inputs;

/// Inputs of [`LayerOps::activate`](super::LayerOps::activate), in f32 or f64.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct ActivateInputs<B: Backend> {
    /// The elements that the function is applied to, of any shape.
    pub input: FloatTensor<B>,
    /// The factor of each result, of the same shape.
    #[extension_type]
    pub factor: OptionalTensor<B>,
    /// The function.
    pub function: Activation,
}

tracked_inputs!(ActivateInputs[2], first: input, {
    input: tracked,
    factor: tracked_option,
    function: same,
});
