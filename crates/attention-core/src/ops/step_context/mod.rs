//! The context of one of many steps that read the same values.

pub(super) mod cpu;

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::backend::GradientSlot;
use burn_fused_layers::harness::tracked::inputs;

use super::mask::ResolvedMask;
use super::weighted_sum::{self, WeightedSumInputs};

inputs! {
    /// Inputs of [`AttentionOps::step_context`](super::AttentionOps::step_context).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct StepContextInputs[2] {
        /// `[batch, 1, 1, keys]`
        tracked weights: FloatTensor<B>,
        /// `[batch, 1, keys, value_size]`
        tracked values: FloatTensor<B>,
        /// Which keys the query attends to.
        #[extension_type]
        on mask: ResolvedMask<B>,
        /// The slot of values that went through
        /// [`LayerOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
        same shared_values: Option<GradientSlot>,
    }
    slots: |inputs| [None, inputs.shared_values.clone()];
}

/// The definition.
pub(super) fn composed<B: Backend>(inputs: StepContextInputs<B>) -> FloatTensor<B> {
    weighted_sum::composed::<B>(WeightedSumInputs {
        weights: inputs.weights,
        values: inputs.values,
        mask: inputs.mask,
    })
}
