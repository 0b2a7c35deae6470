//! Inputs of operations, taken from one backend to another.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use super::deferred_gradients::GradientSlot;
use super::mask::WithIndicesOf;
use super::optional::OptionalTensor;

/// Inputs with `N` tensors that may have gradients, in a fixed order.
pub(super) trait TrackedInputs<B: Backend, const N: usize>: Sized {
    /// The same inputs of another backend.
    type On<A: WithIndicesOf<B>>;

    /// Replaces each tensor.
    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A>;

    /// The first of these tensors.
    fn first(&self) -> &FloatTensor<B>;

    /// Where the gradient of each tensor may be deferred to.
    fn slots(&self) -> [Option<GradientSlot>; N] {
        [const { None }; N]
    }
}

/// What replaces tensors.
pub(super) trait TensorMap<B: Backend, A: Backend> {
    /// A tensor that may have a gradient; called once for each, in their order.
    fn tracked(&mut self, tensor: FloatTensor<B>) -> FloatTensor<A>;

    /// A tensor that may have a gradient, or takes its place in the order though it is absent.
    fn tracked_option(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A>;

    /// A tensor without a gradient.
    fn constant(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A>;
}
