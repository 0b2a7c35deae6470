//! The kernels of a backend, and what a kernel is.

use burn::backend::tensor::{Device, FloatTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::DType;

use super::additive_attention::AdditiveAttentionInputs;
use super::additive_score::AdditiveScoreInputs;
use super::cross_entropy::CrossEntropyInputs;
use super::cross_entropy::cpu::Unscaled;
use super::deferred_gradients::{Deferral, Deferred, Pass};
use super::dot_product_attention::DotProductAttentionInputs;
use super::linear::LinearInputs;
use super::masked_softmax::MaskedSoftmaxInputs;
use super::pack_additive_keys::PackAdditiveKeysInputs;
use super::recurrent::{Recurred, RecurrentInputs};
use super::select_rows::SelectRowsInputs;
use super::select_rows::cpu::Selected;

/// The kernels of a backend: a line for each operation that may have one.
pub struct Kernels<B: Backend> {
    /// Whether they run on a device, with tensors of a type; else the definition does.
    pub(super) runs_on: fn(&Device<B>, DType) -> bool,
    /// The type of the statistics that a fused attention saves of each query.
    #[cfg_attr(not(feature = "fusion"), allow(dead_code, reason = "fusion asks"))]
    pub(super) statistics: DType,
    pub(super) additive_attention: Option<AttentionKernel<B, AdditiveAttentionInputs<B>>>,
    pub(super) dot_product_attention: Option<AttentionKernel<B, DotProductAttentionInputs<B>>>,
    pub(super) additive_score: Option<Kernel<B, AdditiveScoreInputs<B>, AdditiveScoreInputs<B>, 3>>,
    pub(super) masked_softmax: Option<Kernel<B, MaskedSoftmaxInputs<B>, FloatTensor<B>, 1>>,
    pub(super) pack_additive_keys: Option<fn(PackAdditiveKeysInputs<B>) -> FloatTensor<B>>,
    pub(super) linear: Option<Kernel<B, LinearInputs<B>, LinearInputs<B>, 3>>,
    pub(super) select_rows: Option<Kernel<B, SelectRowsInputs<B>, Selected<B>, 1>>,
    pub(super) cross_entropy: Option<LossKernel<B>>,
    pub(super) recurrent: Option<RecurrentKernel<B>>,
    /// The gradient of a tensor, from what its readers deposited.
    pub(super) sum_deferred: Option<SumDeferred<B>>,
}

pub(super) type SumDeferred<B> = fn(Vec<Deferred<B>>, FloatTensor<B>) -> FloatTensor<B>;

impl<B: Backend> Kernels<B> {
    /// None: every operation is composed.
    pub(super) const NONE: Self = Self {
        runs_on: |_, _| false,
        statistics: DType::F32,
        additive_attention: None,
        dot_product_attention: None,
        additive_score: None,
        masked_softmax: None,
        pack_additive_keys: None,
        linear: None,
        select_rows: None,
        cross_entropy: None,
        recurrent: None,
        sum_deferred: None,
    };

    /// The kernel, if it runs with tensors like this one.
    pub(super) fn which<K>(&self, kernel: Option<K>, like: &FloatTensor<B>) -> Option<K> {
        kernel.filter(|_| (self.runs_on)(&like.device(), like.dtype()))
    }
}

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

/// An operation whose forward pass does more where a backward pass is to come; it runs on every device.
pub(super) struct TrainedKernel<B: Backend, I, S, const N: usize> {
    /// Without what the backward pass needs.
    pub(super) infer: fn(I) -> FloatTensor<B>,
    pub(super) train: Kernel<B, I, S, N>,
}

/// A recurrent layer.
pub(super) type RecurrentKernel<B> = TrainedKernel<B, RecurrentInputs<B>, Recurred<B>, 4>;

/// A linear layer with its loss.
pub(super) type LossKernel<B> = TrainedKernel<B, CrossEntropyInputs<B>, Unscaled<B>, 3>;

/// A fused attention: gradients of queries, keys, values, and of the weight or bias.
pub(super) type AttentionKernel<B, I> = Kernel<B, I, Attended<B, I>, 4>;

/// What a fused attention saves: no scores, and weights only of few queries; the backward pass computes them again.
#[derive(Clone, Debug)]
pub(super) struct Attended<B: Backend, I> {
    pub(super) inputs: I,
    /// `[batch, heads, queries, value_size]`
    pub(super) context: FloatTensor<B>,
    /// What the backward pass makes weights of again, for each query: on the CPU the logarithm of the sum, in f64, on a
    /// GPU the greatest score and the reciprocal of the sum.
    pub(super) statistics: FloatTensor<B>,
    /// The weights before dropout, `[batch, heads, queries, keys]`, of a step of decoding by a kernel that reads them.
    pub(super) weights: Option<FloatTensor<B>>,
    /// What dropout drew from, if it is active.
    pub(super) seed: Option<FloatTensor<B>>,
}

/// The gradient of one tensor.
#[derive(Clone, Debug)]
pub(super) enum Gradient<B: Backend> {
    /// The tensor is absent, or nobody wants its gradient.
    Absent,
    /// The gradient itself.
    Whole(FloatTensor<B>),
    /// What it will be made of, for the tensor's [`GradientSlot`](super::GradientSlot).
    Deferred(Deferred<B>),
}
