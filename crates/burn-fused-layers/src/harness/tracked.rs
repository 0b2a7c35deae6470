//! Inputs of operations, taken from one backend to another.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, BackendTypes};

use super::deferred_gradients::GradientSlot;
use super::optional::OptionalTensor;

/// Inputs with `N` tensors that may have gradients, in a fixed order.
pub trait TrackedInputs<B: Backend, const N: usize>: Sized {
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
pub trait TensorMap<B: Backend, A: Backend> {
    /// A tensor that may have a gradient; called once for each, in their order.
    fn tracked(&mut self, tensor: FloatTensor<B>) -> FloatTensor<A>;

    /// A tensor that may have a gradient, or takes its place in the order though it is absent.
    fn tracked_option(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A>;

    /// A tensor without a gradient.
    fn constant(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A>;
}

/// A backend with the integers and flags of `B`: `B` itself, or the one that its autodiff wraps.
pub trait WithIndicesOf<B: BackendTypes>:
    Backend
    + BackendTypes<
        IntTensorPrimitive = B::IntTensorPrimitive,
        BoolTensorPrimitive = B::BoolTensorPrimitive,
    >
{
}

impl<A, B> WithIndicesOf<B> for A
where
    B: BackendTypes,
    A: Backend
        + BackendTypes<
            IntTensorPrimitive = B::IntTensorPrimitive,
            BoolTensorPrimitive = B::BoolTensorPrimitive,
        >,
{
}
