//! An activation, with or without a gate, and the linear layer after it.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::Activation;

use super::{ActivateInputs, LinearInputs};
use crate::harness::optional::OptionalTensor;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::activate_linear`](super::LayerOps::activate_linear), in f32 or f64.
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct ActivateLinearInputs[4] {
        /// The elements that the function is applied to, `[.., in]`.
        tracked input: FloatTensor<B>,
        /// The factor of each result, `[.., in]`.
        #[extension_type]
        tracked_option factor: OptionalTensor<B>,
        /// `[in, out]`
        tracked weight: FloatTensor<B>,
        /// `[out]`
        #[extension_type]
        tracked_option bias: OptionalTensor<B>,
        /// The function.
        same function: Activation,
    }
}

impl<B: Backend> ActivateLinearInputs<B> {
    /// The inputs of the activation, and those of the layer, made from its result.
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
