//! A backend, and its table of kernels.

use burn::backend::tensor::{Device, FloatTensor};
use burn::backend::{Backend, BackendTypes, TensorMetadata};
use burn::tensor::DType;
use burn_fused_layers::backend::LayerBackend;
use burn_fused_layers::harness::kernel::Kernel;
use burn_fused_layers::paths::{self, Operation};

use super::additive_score::AdditiveScoreInputs;
use super::attention::AttentionKernel;
use super::masked_softmax::MaskedSoftmaxInputs;
use super::pack_additive_keys::PackAdditiveKeysInputs;
use super::rotate::RotateInputs;
use super::rotate::cpu::Angles;

/// A backend, and the kernels that it has. One without kernels says `impl AttentionBackend for .. {}`.
pub trait AttentionBackend: LayerBackend {
    #[doc(hidden)]
    const KERNELS: Kernels<Self> = Kernels::NONE;

    /// The most bytes that one tensor on a device may have.
    fn largest_buffer(_device: &Device<Self>) -> usize {
        usize::MAX
    }
}

/// The kernels of a backend: a line for each operation that may have one.
pub struct Kernels<B: Backend> {
    /// Whether an operation's kernel runs on a device, with tensors of a type; else the definition does.
    pub(super) runs_on: fn(&Device<B>, DType, Operation) -> bool,
    pub(super) attention: Option<AttentionKernel<B>>,
    pub(super) additive_score: Option<Kernel<B, AdditiveScoreInputs<B>, AdditiveScoreInputs<B>, 3>>,
    pub(super) masked_softmax: Option<Kernel<B, MaskedSoftmaxInputs<B>, FloatTensor<B>, 1>>,
    pub(super) rotate: Option<Kernel<B, RotateInputs<B>, Angles<B>, 1>>,
    pub(super) pack_additive_keys: Option<PackKeys<B>>,
}

/// Keys as the additive kernel reads them.
type PackKeys<B> = fn(PackAdditiveKeysInputs<B>) -> FloatTensor<B>;

impl<B: Backend> Kernels<B> {
    /// None: every operation is composed.
    pub(super) const NONE: Self = Self {
        runs_on: |_, _, _| false,
        attention: None,
        additive_score: None,
        masked_softmax: None,
        rotate: None,
        pack_additive_keys: None,
    };

    /// The kernel, if it runs with tensors like this one, of the backend or of its autodiff.
    pub(super) fn which<A, K>(
        &self,
        operation: Operation,
        kernel: Option<K>,
        like: &FloatTensor<A>,
    ) -> Option<K>
    where
        A: Backend + BackendTypes<Device = Device<B>>,
    {
        let has = || (self.runs_on)(&like.device(), like.dtype(), operation);
        paths::chosen::<A, K>(operation, kernel, like, has)
    }

    /// The function that packs keys like these, if the kernel runs that reads them packed.
    pub(super) fn packs<A>(&self, keys: &FloatTensor<A>) -> Option<PackKeys<B>>
    where
        A: Backend + BackendTypes<Device = Device<B>>,
    {
        let operation = Operation::AdditiveAttention;
        let runs = || (self.runs_on)(&keys.device(), keys.dtype(), operation);
        self.pack_additive_keys
            .filter(|_| operation.is_on() && runs())
    }
}
