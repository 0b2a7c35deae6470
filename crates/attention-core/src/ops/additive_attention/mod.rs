//! Additive attention, fused: no score of a pair leaves the kernel, nor do its hidden units.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

use super::deferred_pairs::SharedGradients;
use super::mask::ResolvedMask;
use burn_fused_layers::harness::deferred_gradients::GradientSlot;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::WithIndicesOf;
use burn_fused_layers::harness::tracked::{TensorMap, TrackedInputs};

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
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Slots of keys and values that went through [`AttentionOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
    pub shared: Option<SharedGradients>,
}

impl<B: Backend> TrackedInputs<B, 4> for AdditiveAttentionInputs<B> {
    type On<A: WithIndicesOf<B>> = AdditiveAttentionInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        AdditiveAttentionInputs {
            queries: tensors.tracked(self.queries),
            keys: tensors.tracked(self.keys),
            values: tensors.tracked(self.values),
            weight: tensors.tracked(self.weight),
            packed_keys: tensors.constant(self.packed_keys),
            mask: self.mask.on(),
            dropout: self.dropout,
            shared: self.shared,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 4] {
        SharedGradients::slots(self.shared.as_ref())
    }
}
