//! The operations, as a Burn backend extension, and backends with their tables of kernels.
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

/// A backend with its kernels; one without kernels has an empty implementation.
pub trait AttentionBackend: LayerBackend {
    #[doc(hidden)]
    const KERNELS: Kernels<Self> = Kernels::NONE;

    /// The largest size of a tensor on a device, in bytes.
    fn largest_buffer(_device: &Device<Self>) -> usize {
        usize::MAX
    }
}

/// Attention with scaled dot products, as an operation whose [path](burn_fused_layers::paths) can be chosen.
pub(crate) static DOT_PRODUCT_ATTENTION: LazyLock<Operation> =
    LazyLock::new(|| OPERATIONS.named("dot_product_attention"));
/// Attention with additive scores, as such an operation.
pub(crate) static ADDITIVE_ATTENTION: LazyLock<Operation> =
    LazyLock::new(|| OPERATIONS.named("additive_attention"));
/// Attention with pairwise scores, as such an operation.
pub(crate) static PAIRWISE_ATTENTION: LazyLock<Operation> =
    LazyLock::new(|| OPERATIONS.named("pairwise_attention"));

impl<B: Backend> AttentionInputs<B> {
    /// The operation whose [path](burn_fused_layers::paths) can be chosen.
    pub(super) fn operation(&self) -> Operation {
        match (&self.pairwise, &self.weight) {
            (Some(_), _) => *PAIRWISE_ATTENTION,
            (None, OptionalTensor::Present { .. }) => *ADDITIVE_ATTENTION,
            (None, OptionalTensor::Absent) => *DOT_PRODUCT_ATTENTION,
        }
    }
}

impl<B: Backend> PackAdditiveKeysInputs<B> {
    /// Keys are packed if the kernel that reads packed keys runs.
    fn operation(&self) -> Operation {
        *ADDITIVE_ATTENTION
    }
}

operations! {
    /// The operations of attention pooling. Each default body runs the backend's kernel, or else the definition.
    ///
    /// A masked pair of query and key contributes nothing, whatever the key and its value hold.
    ///
    /// Keys and values may have fewer heads, `key_heads`, than queries; `key_heads` divides `heads`, and query head `h`
    /// reads key head `h * key_heads / heads`.
    pub trait AttentionOps: AttentionBackend, Kernels in KERNELS;
    paths OPERATIONS above burn_fused_layers::backend::OPERATIONS;
    cpu runs on |_, dtype, _| cfg!(feature = "f64") || dtype != DType::F64;

    kernels {
        /// Fused attention: scores, softmax, dropout and weighted sum. The context has the axes of the queries.
        fn attention(AttentionInputs) -> FloatTensor
            saves [attention::Attended<B>; 7], definition attention::composed::forward,
            paths [additive_attention, dot_product_attention, pairwise_attention] by AttentionInputs::operation;
            cpu [trained attention::cpu] gpu [trained attention::gpu]

        /// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
        fn additive_score(AdditiveScoreInputs) -> FloatTensor
            saves [AdditiveScoreInputs<B>; 3], definition additive_score::composed::forward;
            cpu [additive_score::cpu] gpu [additive_score::gpu]

        /// `score[b,j] = sum_h weight[h] tanh(queries[b,h] + keys[b,j,h] + location[b,j,h])` for a single query, where
        /// filters over alignments make the location; 0 where masked.
        fn location_score(LocationScoreInputs) -> FloatTensor
            saves [LocationScoreInputs<B>; 5], definition location_score::composed::forward;
            cpu [location_score::cpu]

        /// `context[b,:] = sum_j weights[b,j] values[b,j,:]` over the unmasked keys, for a single query.
        fn step_context(StepContextInputs) -> FloatTensor
            saves [StepContextInputs<B>; 2], definition step_context::composed;
            cpu [step_context::cpu]

        /// Softmax over the keys that each query attends to; masked weights are 0, and so is a row without any key.
        fn masked_softmax(MaskedSoftmaxInputs) -> FloatTensor
            saves [FloatTensor<B>; 1], definition masked_softmax::composed::forward;
            cpu [masked_softmax::cpu] gpu [masked_softmax::gpu]

        /// Each pair of features, rotated by its angle: `(x cos - y sin, y cos + x sin)`.
        fn rotate(RotateInputs) -> FloatTensor
            saves [rotate::cpu::Angles<B>; 1], definition rotate::composed::forward;
            cpu [rotate::cpu]
    }

    constants {
        /// Packs keys as the kernel of additive [`attention`](Self::attention) reads them, once for many calls.
        /// Gradients go to the keys, not to the packed ones. Without a kernel the result is the keys unchanged.
        fn pack_additive_keys(PackAdditiveKeysInputs) definition pack_additive_keys::composed,
            paths [] by PackAdditiveKeysInputs::operation;
            cpu pack_additive_keys::cpu;
    }

    definitions {
        /// Zeros for padding: keys or values that no query attends to.
        fn fill_padding(FillPaddingInputs) definition fill_padding::composed;

        /// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]`, and 0 where masked.
        fn dot_product_score(DotProductScoreInputs) definition dot_product_score::composed;

        /// `context[b,n,i,:] = sum_j weights[b,n,i,j] values[b,n,j,:]` over the keys that are not masked.
        fn weighted_sum(WeightedSumInputs) definition weighted_sum::composed;
    }

    others {}
}
