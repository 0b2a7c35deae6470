//! Dot-product attention, fused: no score leaves the kernel.

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
    /// Added to the scores of each key, `[batch, heads or 1, 1, keys]`.
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The factor on the products.
    pub scale: f64,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Slots of keys and values that went through [`AttentionOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
    pub shared: Option<SharedGradients>,
}

impl<B: Backend> TrackedInputs<B, 4> for DotProductAttentionInputs<B> {
    type On<A: WithIndicesOf<B>> = DotProductAttentionInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        DotProductAttentionInputs {
            queries: tensors.tracked(self.queries),
            keys: tensors.tracked(self.keys),
            values: tensors.tracked(self.values),
            bias: tensors.tracked_option(self.bias),
            mask: self.mask.on(),
            scale: self.scale,
            dropout: self.dropout,
            shared: self.shared,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 4] {
        SharedGradients::slots(self.shared.as_ref())
    }
}
