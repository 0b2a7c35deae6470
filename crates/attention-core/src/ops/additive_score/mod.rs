//! Additive scores of all pairs.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use burn_fused_layers::harness::tracked::tracked_inputs;

use super::mask::ResolvedMask;

/// Inputs of [`AttentionOps::additive_score`](super::AttentionOps::additive_score).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AdditiveScoreInputs<B: Backend> {
    /// `[batch, heads, queries, num_hiddens]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, num_hiddens]`
    pub keys: FloatTensor<B>,
    /// `[num_hiddens]`
    pub weight: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
}

tracked_inputs!(AdditiveScoreInputs[3], first: queries, {
    queries: tracked,
    keys: tracked,
    weight: tracked,
    mask: on,
});
