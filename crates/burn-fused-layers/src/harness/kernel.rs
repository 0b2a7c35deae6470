//! The structure of a kernel: a forward pass, what it saves, and a backward pass.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use super::deferred_gradients::{Deferral, Deposit, Pass};

/// An operation computed by a kernel: from inputs `I` to results `O` and, in training, to the saved state `S`, for the
/// gradients of `N` of the inputs' tensors.
pub struct Kernel<B: Backend, I, O, S, const N: usize> {
    /// Computes only the results.
    pub infer: fn(I) -> O,
    /// Computes the results, and what the backward pass needs for the requested gradients.
    pub train: fn(I, [bool; N]) -> (O, S),
    /// Computes the requested gradients, in the order in which the inputs name their tensors.
    pub backward: Backward<B, S, N>,
}

/// The [`Kernel`] of a module, which has the functions `forward` and `backward`, or, if inference does less, `infer`,
/// `train` and `backward`: `kernel!(linear::cpu)`, `kernel!(trained attention::cpu)`. The macro wraps it in `Some`, for
/// tables.
#[macro_export]
macro_rules! kernel {
    (trained $module:ident :: $file:ident) => {
        Some($crate::harness::kernel::Kernel {
            infer: $module::$file::infer,
            train: $module::$file::train,
            backward: $module::$file::backward,
        })
    };
    ($module:ident :: $file:ident) => {
        Some($crate::harness::kernel::Kernel {
            infer: |inputs| $module::$file::forward(inputs).0,
            train: |inputs, _| $module::$file::forward(inputs),
            backward: $module::$file::backward,
        })
    };
}

pub use crate::kernel;

/// The gradients, from what was saved and the gradient of the result.
pub type Backward<B, S, const N: usize> = fn(S, FloatTensor<B>, Asked<N>) -> [Gradient<B>; N];

/// The gradients requested from a backward pass.
#[derive(Clone, Copy, Debug)]
pub struct Asked<const N: usize> {
    /// Whether each is requested; others may be left out.
    pub wanted: [bool; N],
    /// Whether they may be deposited.
    pub deferral: Deferral,
    /// Takes what readers of the result may have deposited: the pass, and the operation's own node.
    pub taker: Option<(Pass, u64)>,
}

impl<const N: usize> Asked<N> {
    /// All gradients, whole.
    pub const ALL: Self = Self {
        wanted: [true; N],
        deferral: Deferral::Forbidden,
        taker: None,
    };

    /// The requested gradients, whole.
    pub fn whole(wanted: [bool; N]) -> Self {
        Self {
            wanted,
            ..Self::ALL
        }
    }
}

/// The gradient of one tensor.
#[derive(Debug, Default)]
pub enum Gradient<B: Backend> {
    /// The tensor is absent, or its gradient was not requested.
    #[default]
    Absent,
    /// The gradient itself.
    Whole(FloatTensor<B>),
    /// A part of the gradient, for the tensor's [`GradientSlot`](super::deferred_gradients::GradientSlot).
    Deferred(Box<dyn Deposit<B>>),
}
