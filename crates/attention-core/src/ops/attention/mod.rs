//! Attention, fused: no score of a pair leaves the kernel, nor do its hidden units.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use std::sync::Arc;

use attention_kernels::PairwiseKernel;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::inputs;

use super::deferred_pairs::SharedGradients;
use super::mask::ResolvedMask;
use super::score_modifiers::ScoreModifiers;

/// The kernels of pairwise scores.
pub(super) type SharedKernel = Arc<dyn PairwiseKernel>;

inputs! {
    /// Inputs of [`AttentionOps::attention`](super::AttentionOps::attention).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct AttentionInputs[7] {
        /// `[batch, heads, queries, size]`
        tracked queries: FloatTensor<B>,
        /// `[batch, key_heads, keys, size]`
        tracked keys: FloatTensor<B>,
        /// `[batch, key_heads, keys, value_size]`
        tracked values: FloatTensor<B>,
        /// The weight of additive scores, `[size]`, or of pairwise ones, if they have one. Without it the others are
        /// scaled dot products.
        #[extension_type]
        tracked_option weight: OptionalTensor<B>,
        /// For additive scores, the keys as
        /// [`AttentionOps::pack_additive_keys`](super::AttentionOps::pack_additive_keys) returned them.
        #[extension_type]
        constant packed_keys: OptionalTensor<B>,
        /// Changes to the scores.
        #[extension_type]
        map modifiers: ScoreModifiers<B>,
        /// Which keys each query attends to.
        #[extension_type]
        on mask: ResolvedMask<B>,
        /// The kernels of pairwise scores.
        same pairwise: Option<SharedKernel>,
        /// The factor on dot products.
        same scale: f64,
        /// The probability to drop a weight, after softmax; `0.0` when not training.
        same dropout: f64,
        /// Slots of keys and values that went through
        /// [`LayerOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
        same shared: Option<SharedGradients>,
    }
    slots: |inputs| SharedGradients::slots(&inputs.shared);
}

impl<B: Backend> AttentionInputs<B> {
    /// The shapes of the context and of its statistics: two numbers of each row, from which the backward pass computes
    /// the weights again.
    pub(super) fn output_shapes(&self) -> [Shape; 2] {
        let [batch, heads, num_queries, _] = self.queries.shape().dims();
        let [_, _, _, value_size] = self.values.shape().dims();
        [
            [batch, heads, num_queries, value_size].into(),
            [batch, heads, num_queries, 2].into(),
        ]
    }
}

/// The saved state: no scores, and weights only of few queries; the backward pass computes them again.
#[derive(Clone, Debug)]
pub(crate) struct Attended<B: Backend> {
    pub(super) inputs: AttentionInputs<B>,
    /// `[batch, heads, queries, value_size]`
    pub(super) context: FloatTensor<B>,
    /// Numbers that the backward pass makes weights of again, for each query: on the CPU the logarithm of the sum, in
    /// f64, on a GPU the greatest score and the reciprocal of the sum.
    pub(super) statistics: FloatTensor<B>,
    /// The weights before dropout, `[batch, heads, queries, keys]`, of a step of decoding by additive scores.
    pub(super) weights: Option<FloatTensor<B>>,
    /// The seed of dropout, if it is active.
    pub(super) seed: Option<FloatTensor<B>>,
}
