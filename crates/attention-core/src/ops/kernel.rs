//! The shape of a kernel: a forward pass, what it saves, and a backward pass.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use super::deferred_gradients::{Deferral, Deferred, Pass};

/// An operation by a kernel: from inputs `I` to a tensor, saving `S` for the gradients of `N` of the inputs' tensors.
#[derive(Clone, Copy)]
pub(super) struct Kernel<B: Backend, I, S, const N: usize> {
    /// The result, and what the backward pass needs.
    pub(super) forward: fn(I) -> (FloatTensor<B>, S),
    /// The gradients, from what was saved and the gradient of the result; in the order in which the inputs name their
    /// tensors.
    pub(super) backward: Backward<B, S, N>,
}

/// From what was saved and the gradient of the result.
pub(super) type Backward<B, S, const N: usize> =
    fn(S, FloatTensor<B>, Asked<N>) -> [Gradient<B>; N];

/// Which gradients a backward pass asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<const N: usize> {
    /// Whether someone wants each of them; one that nobody wants may be left out.
    pub(super) wanted: [bool; N],
    pub(super) deferral: Deferral,
    /// Who takes what readers of the result may have deposited: the pass, and the operation's own node.
    pub(super) taker: Option<(Pass, u64)>,
}

impl<const N: usize> Asked<N> {
    /// All, whole.
    #[cfg_attr(not(feature = "fusion"), allow(dead_code, reason = "fusion asks"))]
    pub(super) const ALL: Self = Self {
        wanted: [true; N],
        deferral: Deferral::Forbidden,
        taker: None,
    };
}

/// An operation whose forward pass does more where a backward pass is to come.
pub(super) struct TrainedKernel<B: Backend, I, S, const N: usize> {
    /// Without what the backward pass needs.
    pub(super) infer: fn(I) -> FloatTensor<B>,
    pub(super) train: Kernel<B, I, S, N>,
}

/// A fused attention: gradients of queries, keys, values, and of the weight or bias.
pub(super) type AttentionKernel<B, I> = Kernel<B, I, Attended<B, I>, 4>;

/// The saved state of a fused attention: no scores, and weights only of few queries; the backward pass computes them
/// again.
#[derive(Clone, Debug)]
pub(super) struct Attended<B: Backend, I> {
    pub(super) inputs: I,
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

/// The gradient of one tensor.
#[derive(Clone, Debug)]
pub(super) enum Gradient<B: Backend> {
    /// The tensor is absent, or nobody wants its gradient.
    Absent,
    /// The gradient itself.
    Whole(FloatTensor<B>),
    /// The parts that it will be made of, for the tensor's [`GradientSlot`](super::deferred_gradients::GradientSlot).
    Deferred(Deferred<B>),
}
