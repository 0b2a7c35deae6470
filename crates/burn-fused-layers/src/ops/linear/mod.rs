//! Products of rows with a weight, as in a linear layer.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

use crate::harness::deferred_gradients::GradientSlot;
use crate::harness::optional::OptionalTensor;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::tracked::WithIndicesOf;
use crate::harness::tracked::{TensorMap, TrackedInputs};

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
    /// What calls with the same weight share.
    pub shared: Option<SharedWeight>,
}

impl<B: Backend> TrackedInputs<B, 3> for LinearInputs<B> {
    type On<A: WithIndicesOf<B>> = LinearInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.input
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        LinearInputs {
            input: tensors.tracked(self.input),
            weight: tensors.tracked(self.weight),
            bias: tensors.tracked_option(self.bias),
            shared: self.shared,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 3] {
        let slot = self.shared.as_ref().map(SharedWeight::slot);
        [None, slot, None]
    }
}
