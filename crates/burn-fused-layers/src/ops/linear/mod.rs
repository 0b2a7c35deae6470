//! Products of rows with a weight, as in a linear layer.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;

use crate::harness::optional::OptionalTensor;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::linear`](super::LayerOps::linear).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct LinearInputs[3] {
        /// `[rows, in]`
        tracked input: FloatTensor<B>,
        /// `[in, out]`
        tracked weight: FloatTensor<B>,
        /// `[out]`
        #[extension_type]
        tracked_option bias: OptionalTensor<B>,
        /// State that calls with the same weight share.
        same shared: Option<SharedWeight>,
    }
    slots: |inputs| [None, SharedWeight::slot_of(&inputs.shared), None];
}
