//! The list of operations, a Burn backend extension, and a backend with its table of kernels.
#![allow(
    unused_parens,
    reason = "in `operations!` a result alone is as one of several"
)]

use std::sync::LazyLock;

use burn::backend::Backend;
use burn::backend::tensor::{Device, FloatTensor};
use burn::tensor::DType;
use burn_fused_layers::backend::LayerBackend;
use burn_fused_layers::harness::operations::operations;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::paths::Operation;

use super::{
    additive_score, attention, dot_product_score, fill_padding, location_score, masked_softmax,
    pack_additive_keys, rotate, step_context, weighted_sum,
};

/// The inputs of each operation.
pub(crate) mod inputs {
    pub use crate::ops::additive_score::AdditiveScoreInputs;
    pub use crate::ops::attention::AttentionInputs;
    pub use crate::ops::dot_product_score::DotProductScoreInputs;
    pub use crate::ops::fill_padding::FillPaddingInputs;
    pub use crate::ops::location_score::LocationScoreInputs;
    pub use crate::ops::masked_softmax::MaskedSoftmaxInputs;
    pub use crate::ops::pack_additive_keys::PackAdditiveKeysInputs;
    pub use crate::ops::rotate::RotateInputs;
    pub use crate::ops::step_context::StepContextInputs;
    pub use crate::ops::weighted_sum::WeightedSumInputs;
}
use inputs::*;

/// A backend, and the kernels that it has. One without kernels says `impl AttentionBackend for .. {}`.
pub trait AttentionBackend: LayerBackend {
    #[doc(hidden)]
    const KERNELS: Kernels<Self> = Kernels::NONE;

    /// The most bytes that one tensor on a device may have.
    fn largest_buffer(_device: &Device<Self>) -> usize {
        usize::MAX
    }
}

/// Attention by scaled dot products, to those who choose [paths](burn_fused_layers::paths).
pub(crate) static DOT_PRODUCT_ATTENTION: LazyLock<Operation> =
    LazyLock::new(|| OPERATIONS.named("dot_product_attention"));
/// The same by additive scores.
pub(crate) static ADDITIVE_ATTENTION: LazyLock<Operation> =
    LazyLock::new(|| OPERATIONS.named("additive_attention"));
/// The same by pairwise scores.
pub(crate) static PAIRWISE_ATTENTION: LazyLock<Operation> =
    LazyLock::new(|| OPERATIONS.named("pairwise_attention"));

impl<B: Backend> AttentionInputs<B> {
    /// The operation that this is to those who choose [paths](burn_fused_layers::paths).
    pub(super) fn operation(&self) -> Operation {
        match (&self.pairwise, &self.weight) {
            (Some(_), _) => *PAIRWISE_ATTENTION,
            (None, OptionalTensor::Present { .. }) => *ADDITIVE_ATTENTION,
            (None, OptionalTensor::Absent) => *DOT_PRODUCT_ATTENTION,
        }
    }
}

impl<B: Backend> PackAdditiveKeysInputs<B> {
    /// Keys are packed if the kernel runs that reads them.
    fn operation(&self) -> Operation {
        *ADDITIVE_ATTENTION
    }
}

operations! {
    /// The operations of attention pooling. Each default body runs the backend's kernel, or else the definition.
    ///
    /// A masked pair of query and key contributes nothing, whatever its key and value hold.
    ///
    /// Keys and values may have fewer heads than queries, `key_heads`, which divides `heads`: query head `h` reads key
    /// head `h * key_heads / heads`.
    pub trait AttentionOps: AttentionBackend, Kernels in KERNELS;
    paths OPERATIONS above burn_fused_layers::backend::OPERATIONS;
    cpu runs on |_, dtype, _| cfg!(feature = "f64") || dtype != DType::F64;

    kernels {
        /// Attention, fused: scores, softmax, dropout and weighted sum.
        fn attention(AttentionInputs) -> FloatTensor
            saves [attention::Attended<B>; 7], definition attention::composed::forward,
            paths [additive_attention, dot_product_attention, pairwise_attention] by AttentionInputs::operation;
            cpu [trained attention::cpu] gpu [trained attention::gpu]

        /// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
        fn additive_score(AdditiveScoreInputs) -> FloatTensor
            saves [AdditiveScoreInputs<B>; 3], definition additive_score::composed::forward;
            cpu [additive_score::cpu] gpu [additive_score::gpu]

        /// `score[b,j] = sum_h weight[h] tanh(queries[b,h] + keys[b,j,h] + location[b,j,h])`, one query at a time,
        /// where the location is filters over alignments; 0 where masked.
        fn location_score(LocationScoreInputs) -> FloatTensor
            saves [LocationScoreInputs<B>; 5], definition location_score::composed::forward;
            cpu [location_score::cpu]

        /// `context[b,:] = sum_j weights[b,j] values[b,j,:]` over the keys that are not masked, one query at a time.
        fn step_context(StepContextInputs) -> FloatTensor
            saves [StepContextInputs<B>; 2], definition step_context::composed;
            cpu [step_context::cpu]

        /// Softmax over the keys that each query attends to; masked weights are 0, and so is a row without any key.
        fn masked_softmax(MaskedSoftmaxInputs) -> FloatTensor
            saves [FloatTensor<B>; 1], definition masked_softmax::composed::forward;
            cpu [masked_softmax::cpu] gpu [masked_softmax::gpu]

        /// Each pair of features, turned by its angle: `(x cos - y sin, y cos + x sin)`.
        fn rotate(RotateInputs) -> FloatTensor
            saves [rotate::cpu::Angles<B>; 1], definition rotate::composed::forward;
            cpu [rotate::cpu]
    }

    constants {
        /// The keys as the kernel of additive [`attention`](Self::attention) reads them, once for many calls.
        /// Gradients go to the keys, not to the result. Without a kernel the result is the keys as they are.
        fn pack_additive_keys(PackAdditiveKeysInputs) definition pack_additive_keys::composed,
            paths [] by PackAdditiveKeysInputs::operation;
            cpu pack_additive_keys::cpu;
    }

    definitions {
        /// Zeros for the padding among keys or values, those that no query attends to.
        fn fill_padding(FillPaddingInputs) definition fill_padding::composed;

        /// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]`, and 0 where masked.
        fn dot_product_score(DotProductScoreInputs) definition dot_product_score::composed;

        /// `context[b,n,i,:] = sum_j weights[b,n,i,j] values[b,n,j,:]` over the keys that are not masked.
        fn weighted_sum(WeightedSumInputs) definition weighted_sum::composed;
    }

    others {}
}
