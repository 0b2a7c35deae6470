//! Attention, fused: no score of a pair leaves the kernel, nor do its hidden units.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, TensorMetadata};
use burn::tensor::Shape;
use burn_fused_layers::harness::kernel::TrainedKernel;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::tracked_inputs;
use burn_fused_layers::paths::Operation;

use super::deferred_pairs::SharedGradients;
use super::mask::ResolvedMask;
use super::score_modifiers::ScoreModifiers;

/// Inputs of [`AttentionOps::attention`](super::AttentionOps::attention).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AttentionInputs<B: Backend> {
    /// `[batch, heads, queries, size]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, size]`
    pub keys: FloatTensor<B>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: FloatTensor<B>,
    /// The weight of additive scores, `[size]`; without it scores are scaled dot products.
    #[extension_type]
    pub weight: OptionalTensor<B>,
    /// For additive scores, the keys as [`AttentionOps::pack_additive_keys`](super::AttentionOps::pack_additive_keys)
    /// returned them.
    #[extension_type]
    pub packed_keys: OptionalTensor<B>,
    /// Changes to the scores.
    #[extension_type]
    pub modifiers: ScoreModifiers<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The factor on dot products.
    pub scale: f64,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Slots of keys and values that went through
    /// [`LayerOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
    pub shared: Option<SharedGradients>,
}

tracked_inputs!(AttentionInputs[7], first: queries, slots: |inputs| SharedGradients::slots(&inputs.shared), {
    queries: tracked,
    keys: tracked,
    values: tracked,
    weight: tracked_option,
    packed_keys: constant,
    modifiers: map,
    mask: on,
    scale: same,
    dropout: same,
    shared: same,
});

impl<B: Backend> AttentionInputs<B> {
    /// The operation that this is to those who choose [paths](burn_fused_layers::paths).
    pub(super) fn operation(&self) -> Operation {
        match self.weight {
            OptionalTensor::Present { .. } => Operation::AdditiveAttention,
            OptionalTensor::Absent => Operation::DotProductAttention,
        }
    }

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

/// The kernel: gradients of queries, keys, values, weight, bias, relative bias and sinks.
pub(super) type AttentionKernel<B> =
    TrainedKernel<B, AttentionInputs<B>, FloatTensor<B>, Attended<B>, 7>;

/// The saved state: no scores, and weights only of few queries; the backward pass computes them again.
#[derive(Clone, Debug)]
pub(super) struct Attended<B: Backend> {
    pub(super) inputs: AttentionInputs<B>,
    /// `[batch, heads, queries, value_size]`
    pub(super) context: FloatTensor<B>,
    /// Numbers that the backward pass makes weights of again, for each query: on the CPU the logarithm of the sum, in
    /// f64, on a GPU the greatest score and the reciprocal of the sum.
    pub(super) statistics: FloatTensor<B>,
    /// The weights before dropout, `[batch, heads, queries, keys]`, of a step of decoding by a kernel that reads them.
    pub(super) weights: Option<FloatTensor<B>>,
    /// The seed of dropout, if it is active.
    pub(super) seed: Option<FloatTensor<B>>,
}
