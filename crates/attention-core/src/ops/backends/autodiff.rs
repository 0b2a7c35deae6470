//! Training: an operation with a kernel is one node of the graph, with the kernel's gradient; one without is composed,
//! and differentiated operation by operation.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend};
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_fused_layers::harness::differentiate::{differentiate, differentiate_trained, off_graph};
use burn_fused_layers::paths::Operation;

use crate::ops::{
    AdditiveScoreInputs, AttentionInputs, AttentionOps, MaskedSoftmaxInputs,
    PackAdditiveKeysInputs, RotateInputs, additive_score, attention, masked_softmax, rotate,
};

impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn additive_score(inputs: AdditiveScoreInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::KERNELS.additive_score;
        match B::KERNELS.which::<Self, _>(Operation::AdditiveScore, kernel, &inputs.queries) {
            Some(kernel) => differentiate(kernel, inputs),
            None => additive_score::composed::forward(inputs),
        }
    }

    fn masked_softmax(inputs: MaskedSoftmaxInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::KERNELS.masked_softmax;
        match B::KERNELS.which::<Self, _>(Operation::MaskedSoftmax, kernel, &inputs.scores) {
            Some(kernel) => differentiate(kernel, inputs),
            None => masked_softmax::composed::forward(inputs),
        }
    }

    fn attention(inputs: AttentionInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::KERNELS.attention;
        match B::KERNELS.which::<Self, _>(inputs.operation(), kernel, &inputs.queries) {
            Some(kernel) => differentiate_trained(kernel, inputs, |context| (context, ())).0,
            None => attention::composed::forward(inputs),
        }
    }

    fn rotate(inputs: RotateInputs<Self>) -> FloatTensor<Self> {
        match B::KERNELS.which::<Self, _>(Operation::Rotate, B::KERNELS.rotate, &inputs.rows) {
            Some(kernel) => differentiate(kernel, inputs),
            None => rotate::composed::forward(inputs),
        }
    }

    fn pack_additive_keys(inputs: PackAdditiveKeysInputs<Self>) -> FloatTensor<Self> {
        match B::KERNELS.packs::<Self>(&inputs.keys) {
            Some(pack) => Self::from_inner(pack(off_graph::<B, C, _, 1>(inputs))),
            None => inputs.keys,
        }
    }
}
