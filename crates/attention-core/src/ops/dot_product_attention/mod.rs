//! Dot-product attention, fused: no score leaves the kernel.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use burn_fused_layers::harness::tracked::tracked_inputs;

use super::deferred_pairs::SharedGradients;
use super::mask::ResolvedMask;
use super::score_modifiers::ScoreModifiers;

/// Inputs of [`AttentionOps::dot_product_attention`](super::AttentionOps::dot_product_attention).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct DotProductAttentionInputs<B: Backend> {
    /// `[batch, heads, queries, size]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, size]`
    pub keys: FloatTensor<B>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: FloatTensor<B>,
    /// Changes to the scores.
    #[extension_type]
    pub modifiers: ScoreModifiers<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The factor on the products.
    pub scale: f64,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Slots of keys and values that went through
    /// [`LayerOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
    pub shared: Option<SharedGradients>,
}

tracked_inputs!(DotProductAttentionInputs[6], first: queries, slots: |inputs| SharedGradients::slots(&inputs.shared), {
    queries: tracked,
    keys: tracked,
    values: tracked,
    modifiers: map,
    mask: on,
    scale: same,
    dropout: same,
    shared: same,
});
