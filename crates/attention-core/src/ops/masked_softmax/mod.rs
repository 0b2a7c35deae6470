//! Softmax over the keys that each query attends to.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use burn_fused_layers::harness::tracked::tracked_inputs;

use super::mask::ResolvedMask;

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

tracked_inputs!(MaskedSoftmaxInputs[1], first: scores, {
    scores: tracked,
    mask: on,
});
