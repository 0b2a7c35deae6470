//! Additive attention, fused: no score of a pair leaves the kernel, nor do its hidden units.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::tracked_inputs;

use super::deferred_pairs::SharedGradients;
use super::mask::ResolvedMask;
use super::score_modifiers::ScoreModifiers;

/// Inputs of [`AttentionOps::additive_attention`](super::AttentionOps::additive_attention).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AdditiveAttentionInputs<B: Backend> {
    /// `[batch, heads, queries, num_hiddens]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, num_hiddens]`
    pub keys: FloatTensor<B>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: FloatTensor<B>,
    /// `[num_hiddens]`
    pub weight: FloatTensor<B>,
    /// The keys as [`AttentionOps::pack_additive_keys`](super::AttentionOps::pack_additive_keys) returned them.
    #[extension_type]
    pub packed_keys: OptionalTensor<B>,
    /// Changes to the scores.
    #[extension_type]
    pub modifiers: ScoreModifiers<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Slots of keys and values that went through
    /// [`LayerOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
    pub shared: Option<SharedGradients>,
}

tracked_inputs!(AdditiveAttentionInputs[7], first: queries, slots: |inputs| SharedGradients::slots(&inputs.shared), {
    queries: tracked,
    keys: tracked,
    values: tracked,
    weight: tracked,
    packed_keys: constant,
    modifiers: map,
    mask: on,
    dropout: same,
    shared: same,
});
