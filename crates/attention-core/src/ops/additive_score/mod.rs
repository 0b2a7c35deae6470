//! Additive scores of all pairs.

pub(super) mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

use super::mask::ResolvedMask;
use burn_fused_layers::harness::tracked::WithIndicesOf;
use burn_fused_layers::harness::tracked::{TensorMap, TrackedInputs};

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

impl<B: Backend> TrackedInputs<B, 3> for AdditiveScoreInputs<B> {
    type On<A: WithIndicesOf<B>> = AdditiveScoreInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        AdditiveScoreInputs {
            queries: tensors.tracked(self.queries),
            keys: tensors.tracked(self.keys),
            weight: tensors.tracked(self.weight),
            mask: self.mask.on(),
        }
    }
}
