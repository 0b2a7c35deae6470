//! Softmax over the keys that each query attends to.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

use super::mask::ResolvedMask;
use burn_fused_layers::harness::tracked::WithIndicesOf;
use burn_fused_layers::harness::tracked::{TensorMap, TrackedInputs};

/// Inputs of [`AttentionOps::masked_softmax`](super::AttentionOps::masked_softmax).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct MaskedSoftmaxInputs<B: Backend> {
    /// `[batch, heads, queries, keys]`
    pub scores: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
}

impl<B: Backend> TrackedInputs<B, 1> for MaskedSoftmaxInputs<B> {
    type On<A: WithIndicesOf<B>> = MaskedSoftmaxInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.scores
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        MaskedSoftmaxInputs {
            scores: tensors.tracked(self.scores),
            mask: self.mask.on(),
        }
    }
}
