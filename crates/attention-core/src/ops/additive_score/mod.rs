//! Additive scores of all pairs.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::tracked::inputs;

use super::mask::ResolvedMask;

inputs! {
    /// Inputs of [`AttentionOps::additive_score`](super::AttentionOps::additive_score).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct AdditiveScoreInputs[3] {
        /// `[batch, heads, queries, num_hiddens]`
        tracked queries: FloatTensor<B>,
        /// `[batch, key_heads, keys, num_hiddens]`
        tracked keys: FloatTensor<B>,
        /// `[num_hiddens]`
        tracked weight: FloatTensor<B>,
        /// Which keys each query attends to.
        #[extension_type]
        on mask: ResolvedMask<B>,
    }
}
