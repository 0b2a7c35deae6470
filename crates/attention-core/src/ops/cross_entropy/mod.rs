//! A linear layer to classes with its loss.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};

use super::mask::WithIndicesOf;
use super::optional::OptionalTensor;
use super::tracked::{TensorMap, TrackedInputs};

/// Inputs of [`AttentionOps::cross_entropy`](super::AttentionOps::cross_entropy).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct CrossEntropyInputs<B: Backend> {
    /// The features of all rows, part by part: `[parts * rows, size]`, of as many rows as there are targets.
    pub input: FloatTensor<B>,
    /// `[parts * size, classes]`
    pub weight: FloatTensor<B>,
    /// `[classes]`
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// The class of each row, `[rows]`.
    pub targets: IntTensor<B>,
    /// What the loss of each row is multiplied with, `[rows]`, or else 1; it has no gradient.
    #[extension_type]
    pub factors: OptionalTensor<B>,
}

impl<B: Backend> TrackedInputs<B, 3> for CrossEntropyInputs<B> {
    type On<A: WithIndicesOf<B>> = CrossEntropyInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.input
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        CrossEntropyInputs {
            input: tensors.tracked(self.input),
            weight: tensors.tracked(self.weight),
            bias: tensors.tracked_option(self.bias),
            targets: self.targets,
            factors: tensors.constant(self.factors),
        }
    }
}
