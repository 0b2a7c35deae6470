//! Products of rows with a weight, as in a linear layer.

pub(super) mod composed;
pub(super) mod cpu;
pub(crate) mod kept_weights;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

use crate::harness::optional::OptionalTensor;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::tracked::tracked_inputs;

/// Inputs of [`LayerOps::linear`](super::LayerOps::linear).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct LinearInputs<B: Backend> {
    /// `[rows, in]`
    pub input: FloatTensor<B>,
    /// `[in, out]`
    pub weight: FloatTensor<B>,
    /// `[out]`
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// The part that calls with the same weight share.
    pub shared: Option<SharedWeight>,
}

tracked_inputs!(LinearInputs[3], first: input, slots: |inputs| [None, SharedWeight::slot_of(&inputs.shared), None], {
    input: tracked,
    weight: tracked,
    bias: tracked_option,
    shared: same,
});
