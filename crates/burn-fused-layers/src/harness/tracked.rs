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

/// A replacement of tensors.
pub trait TensorMap<B: Backend, A: Backend> {
    /// A tensor that may have a gradient; called once for each, in their order.
    fn tracked(&mut self, tensor: FloatTensor<B>) -> FloatTensor<A>;

    /// A tensor that may have a gradient, or takes its place in the order though it is absent.
    fn tracked_option(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A>;

    /// A tensor without a gradient.
    fn constant(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A>;

    /// A tensor without a gradient that is always there.
    fn fixed(&mut self, tensor: FloatTensor<B>) -> FloatTensor<A> {
        let tensor = self.constant(OptionalTensor::Present { tensor });
        tensor.into_option().expect("a tensor that is there stays")
    }
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

/// Implements [`TrackedInputs`] for a struct: the number of its tensors that may have gradients, which of them is the
/// first, the slots, and each field with the way by which it goes to another backend.
///
/// | way | field |
/// | --- | --- |
/// | `tracked`, `tracked_option`, `constant`, `fixed` | by the method of [`TensorMap`] of this name |
/// | `on` | by a method `on` of its own |
/// | `map` | by a method `map` of its own, which takes the [`TensorMap`] to its tensors |
/// | `same` | as it is |
#[macro_export]
macro_rules! tracked_inputs {
    (
        $inputs:ident[$count:literal], first: $first:ident $(, slots: $slots:expr)?,
        { $($field:ident: $way:ident),+ $(,)? }
    ) => {
        impl<B: ::burn::backend::Backend> $crate::harness::tracked::TrackedInputs<B, $count> for $inputs<B> {
            type On<A: $crate::harness::tracked::WithIndicesOf<B>> = $inputs<A>;

            fn first(&self) -> &::burn::backend::tensor::FloatTensor<B> {
                &self.$first
            }

            fn map<A: $crate::harness::tracked::WithIndicesOf<B>>(
                self,
                tensors: &mut impl $crate::harness::tracked::TensorMap<B, A>,
            ) -> Self::On<A> {
                $inputs {
                    $($field: $crate::tracked_inputs!(@$way tensors, self.$field)),+
                }
            }

            $(fn slots(&self) -> [Option<$crate::harness::deferred_gradients::GradientSlot>; $count] {
                let slots: fn(&Self) -> _ = $slots;
                slots(self)
            })?
        }
    };
    (@map $tensors:ident, $field:expr) => { $field.map($tensors) };
    (@on $tensors:ident, $field:expr) => { $field.on() };
    (@same $tensors:ident, $field:expr) => { $field };
    (@$method:ident $tensors:ident, $field:expr) => { $tensors.$method($field) };
}

pub use crate::tracked_inputs;
