//! An activation, gated or not, and the linear layer after it.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use cpu_kernels::Activation;

use super::{ActivateInputs, LinearInputs};
use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::tracked_inputs;

/// Inputs of [`LayerOps::activate_linear`](super::LayerOps::activate_linear), in f32 or f64.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct ActivateLinearInputs<B: Backend> {
    /// The elements that the function is applied to, `[rows, in]`.
    pub input: FloatTensor<B>,
    /// The factor of each result, `[rows, in]`.
    #[extension_type]
    pub factor: OptionalTensor<B>,
    /// `[in, out]`
    pub weight: FloatTensor<B>,
    /// `[out]`
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// The function.
    pub function: Activation,
}

impl<B: Backend> ActivateLinearInputs<B> {
    /// The inputs of the activation, and the layer's inputs from its result.
    fn parts(
        self,
    ) -> (
        ActivateInputs<B>,
        impl FnOnce(FloatTensor<B>) -> LinearInputs<B>,
    ) {
        let activation = ActivateInputs {
            input: self.input,
            factor: self.factor,
            function: self.function,
        };
        let layer = |input| LinearInputs {
            input,
            weight: self.weight,
            bias: self.bias,
            shared: None,
        };
        (activation, layer)
    }
}

tracked_inputs!(ActivateLinearInputs[4], first: input, {
    input: tracked,
    factor: tracked_option,
    weight: tracked,
    bias: tracked_option,
    function: same,
});
