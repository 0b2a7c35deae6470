//! Softmax over the keys that each query attends to.

mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

pub(super) use composed::composed;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::Tensor;

use super::backends::{TensorMap, TrackedInputs};
use super::mask::WithIndicesOf;
use super::{AttentionOps, ResolvedMask};
use crate::Mask;

/// Inputs of [`AttentionOps::masked_softmax`].
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct MaskedSoftmaxInputs<B: Backend> {
    /// `[batch, heads, queries, keys]`
    pub scores: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
}

impl<B: Backend> TrackedInputs<B, 1> for MaskedSoftmaxInputs<B> {
    type On<A: WithIndicesOf<B>> = MaskedSoftmaxInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.scores
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        MaskedSoftmaxInputs {
            scores: tensors.tracked(self.scores),
            mask: self.mask.on(),
        }
    }
}

/// Softmax over the keys that each query attends to: masked weights are 0, and so is a row without any key. A score of
/// `-inf` counts as masked.
///
/// # Shapes
/// - scores and result `[batch, heads, queries, keys]`
///
/// # Panics
/// If the mask does not fit `scores`.
pub fn masked_softmax(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let mask = mask.resolve(scores.dims(), &scores.device());
    if scores.dims().contains(&0) {
        return scores;
    }
    let inputs = MaskedSoftmaxInputs {
        scores: scores.into_dispatch(),
        mask,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::masked_softmax(inputs))
}
