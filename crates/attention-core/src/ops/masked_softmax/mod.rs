//! Softmax over the keys that each query attends to.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::tracked::inputs;

use super::mask::ResolvedMask;

inputs! {
    /// Inputs of [`AttentionOps::masked_softmax`](super::AttentionOps::masked_softmax).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct MaskedSoftmaxInputs[1] {
        /// `[batch, heads, queries, keys]`
        tracked scores: FloatTensor<B>,
        /// Which keys each query attends to.
        #[extension_type]
        on mask: ResolvedMask<B>,
    }
}
