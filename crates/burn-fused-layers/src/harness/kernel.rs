//! The shape of a kernel: a forward pass, what it saves, and a backward pass.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use super::deferred_gradients::{Deferral, Deposit, Pass};

/// An operation by a kernel: from inputs `I` to a tensor, saving `S` for the gradients of `N` of the inputs' tensors.
#[derive(Clone, Copy)]
pub struct Kernel<B: Backend, I, S, const N: usize> {
    /// The result, and what the backward pass needs.
    pub forward: fn(I) -> (FloatTensor<B>, S),
    /// The gradients, from what was saved and the gradient of the result; in the order in which the inputs name their
    /// tensors.
    pub backward: Backward<B, S, N>,
}

/// The gradients, from what was saved and the gradient of the result.
pub type Backward<B, S, const N: usize> = fn(S, FloatTensor<B>, Asked<N>) -> [Gradient<B>; N];

/// The gradients that a backward pass asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<const N: usize> {
    /// Whether someone wants each of them; one that nobody wants may be left out.
    pub wanted: [bool; N],
    /// Whether they may be deposited.
    pub deferral: Deferral,
    /// Who takes what readers of the result may have deposited: the pass, and the operation's own node.
    pub taker: Option<(Pass, u64)>,
}

impl<const N: usize> Asked<N> {
    /// All, whole.
    pub const ALL: Self = Self {
        wanted: [true; N],
        deferral: Deferral::Forbidden,
        taker: None,
    };

    /// The wanted gradients, whole.
    pub fn whole(wanted: [bool; N]) -> Self {
        Self {
            wanted,
            ..Self::ALL
        }
    }
}

/// An operation with results `O` whose forward pass does more where a backward pass is to come, saving `S` for those
/// gradients of `N` of the inputs' tensors that are wanted.
pub struct TrainedKernel<B: Backend, I, O, S, const N: usize> {
    /// Without what the backward pass needs.
    pub infer: fn(I) -> O,
    /// With what it needs for the gradients that are wanted, one at least.
    pub train: fn(I, [bool; N]) -> (O, S),
    /// The gradients; the same ones are wanted.
    pub backward: Backward<B, S, N>,
}

/// The gradient of one tensor.
#[derive(Debug)]
pub enum Gradient<B: Backend> {
    /// The tensor is absent, or nobody wants its gradient.
    Absent,
    /// The gradient itself.
    Whole(FloatTensor<B>),
    /// A part of what it will be made of, for the tensor's [`GradientSlot`](super::deferred_gradients::GradientSlot).
    Deferred(Box<dyn Deposit<B>>),
}
