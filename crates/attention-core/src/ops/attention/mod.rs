//! Fused attention: neither scores nor hidden units of a pair leave the kernel.

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
use super::key_heads::sizes_with_heads;
use super::mask::ResolvedMask;
use super::score_modifiers::ScoreModifiers;

/// The kernels of pairwise scores.
pub(super) type SharedKernel = Arc<dyn PairwiseKernel>;

inputs! {
    /// Inputs of [`AttentionOps::attention`](super::AttentionOps::attention).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct AttentionInputs[7] {
        /// `[batch, heads, queries, size]`; here and in keys and values, a single head needs no axis
        tracked queries: FloatTensor<B>,
        /// `[batch, key_heads, keys, size]`
        tracked keys: FloatTensor<B>,
        /// `[batch, key_heads, keys, value_size]`
        tracked values: FloatTensor<B>,
        /// The weight of additive scores, `[size]`, or of pairwise scores, if they have one. Without it, scores that
        /// are not pairwise are scaled dot products.
        #[extension_type]
        tracked_option weight: OptionalTensor<B>,
        /// For additive scores, the packed keys from
        /// [`AttentionOps::pack_additive_keys`](super::AttentionOps::pack_additive_keys).
        #[extension_type]
        constant packed_keys: OptionalTensor<B>,
        /// Modifications of the scores.
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
    /// The shapes of the context, with the axes that queries have, and of its statistics, always with four axes: two
    /// numbers per row, from which the backward pass recomputes the weights.
    pub(super) fn output_shapes(&self) -> [Shape; 2] {
        let mut context = self.queries.shape();
        let [batch, heads, num_queries, _] = sizes_with_heads(&context);
        let [_, _, _, value_size] = sizes_with_heads(&self.values.shape());
        let last = context.num_dims() - 1;
        context[last] = value_size;
        [context, [batch, heads, num_queries, 2].into()]
    }
}

/// The saved state: no scores, and weights only for few queries; otherwise the backward pass recomputes them.
#[derive(Clone, Debug)]
pub(crate) struct Attended<B: Backend> {
    pub(super) inputs: AttentionInputs<B>,
    /// `[batch, heads, queries, value_size]`, or without heads as the queries are.
    pub(super) context: FloatTensor<B>,
    /// Numbers per query from which the backward pass recomputes the weights: on the CPU the logarithm of the sum, in
    /// f64, on a GPU the largest score and the reciprocal of the sum.
    pub(super) statistics: FloatTensor<B>,
    /// The weights before dropout, `[batch, heads, queries, keys]`; only of a decoding step with additive scores.
    pub(super) weights: Option<FloatTensor<B>>,
    /// The seed of dropout, if it is active.
    pub(super) seed: Option<FloatTensor<B>>,
}
