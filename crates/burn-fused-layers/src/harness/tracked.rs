//! Inputs of operations, converted from one backend to another.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, BackendTypes};

use super::deferred_gradients::GradientSlot;
use super::optional::OptionalTensor;

/// A function that opens a slot for the node of a result.
pub type OpenSlot = fn(&GradientSlot, u64);

/// Inputs with `N` tensors that may have gradients, in a fixed order.
pub trait TrackedInputs<B: Backend, const N: usize>: Sized {
    /// The inputs on another backend.
    type On<A: WithIndicesOf<B>>;

    /// Replaces each tensor.
    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A>;

    /// The first of these tensors.
    fn first(&self) -> &FloatTensor<B>;

    /// The slots to which the gradient of each tensor may be deferred.
    fn slots(&self) -> [Option<GradientSlot>; N] {
        [const { None }; N]
    }

    /// The slot where readers of the result deposit their gradients, and the function that opens it for the node of the
    /// result, on the backend `A` below autodiff.
    fn readers<A: WithIndicesOf<B>>(&self) -> Option<(GradientSlot, OpenSlot)> {
        None
    }
}

/// A conversion of tensors: any function from a tensor (or its absence) and whether it may have a gradient. It is
/// called for each tensor that may have a gradient, in order.
pub trait TensorMap<B: Backend, A: Backend> {
    /// The converted tensor.
    fn replace(&mut self, tensor: Option<FloatTensor<B>>, tracked: bool) -> Option<FloatTensor<A>>;

    /// A tensor that may have a gradient.
    fn tracked(&mut self, tensor: FloatTensor<B>) -> FloatTensor<A> {
        self.replace(Some(tensor), true).expect(STAYS)
    }

    /// A tensor that may have a gradient and may be absent; it keeps its place in the order.
    fn tracked_option(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A> {
        self.replace(tensor.into_option(), true).into()
    }

    /// A tensor without a gradient.
    fn constant(&mut self, tensor: OptionalTensor<B>) -> OptionalTensor<A> {
        self.replace(tensor.into_option(), false).into()
    }

    /// A tensor that is always present and has no gradient.
    fn fixed(&mut self, tensor: FloatTensor<B>) -> FloatTensor<A> {
        self.replace(Some(tensor), false).expect(STAYS)
    }
}

const STAYS: &str = "a tensor that is there stays";

impl<B, A, F> TensorMap<B, A> for F
where
    B: Backend,
    A: Backend,
    F: FnMut(Option<FloatTensor<B>>, bool) -> Option<FloatTensor<A>>,
{
    fn replace(&mut self, tensor: Option<FloatTensor<B>>, tracked: bool) -> Option<FloatTensor<A>> {
        self(tensor, tracked)
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

/// Declares the inputs of an operation, a struct that can be converted between backends: the number of its tensors that
/// may have gradients; each field after the way it is converted, the first of them `tracked`; then, if gradients are
/// deferred, the slots of these tensors, and the deposits of readers with the field of their slot.
///
/// | way | field |
/// | --- | --- |
/// | `tracked`, `tracked_option`, `constant`, `fixed` | by the [`TensorMap`] method of this name |
/// | `on` | by its own method `on` |
/// | `map` | by its own method `map`, which applies the [`TensorMap`] to its tensors |
/// | `same` | unchanged |
#[macro_export]
macro_rules! inputs {
    (
        $(#[$about:meta])*
        pub struct $inputs:ident[$count:literal] {
            $(#[$first_doc:meta])* tracked $first:ident: $first_type:ident<B>
            $(, $(#[$doc:meta])* $way:ident $field:ident: $type:ident $(<$of:ident>)?)* $(,)?
        }
        $(slots: $slots:expr;)?
        $(readers: $deposit:ident in $reads:ident;)?
    ) => {
        #[derive(Clone, Debug, ::burn::backend::ExtensionType)]
        $(#[$about])*
        pub struct $inputs<B: ::burn::backend::Backend> {
            $(#[$first_doc])*
            pub $first: $first_type<B>,
            $($(#[$doc])* pub $field: $type $(<$of>)?,)*
        }

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
                    $first: tensors.tracked(self.$first),
                    $($field: $crate::inputs!(@$way tensors, self.$field),)*
                }
            }

            $(fn slots(&self) -> [Option<$crate::harness::deferred_gradients::GradientSlot>; $count] {
                let slots: fn(&Self) -> _ = $slots;
                slots(self)
            })?

            $(fn readers<A: $crate::harness::tracked::WithIndicesOf<B>>(
                &self,
            ) -> Option<(GradientSlot, $crate::harness::tracked::OpenSlot)> {
                Some((self.$reads.clone(), GradientSlot::open::<$deposit<A>>))
            })?
        }
    };
    (@map $tensors:ident, $field:expr) => { $field.map($tensors) };
    (@on $tensors:ident, $field:expr) => { $field.on() };
    (@same $tensors:ident, $field:expr) => { $field };
    (@$method:ident $tensors:ident, $field:expr) => { $tensors.$method($field) };
}

pub use crate::inputs;
