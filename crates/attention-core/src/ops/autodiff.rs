//! Training: the composed definitions, differentiated operation by operation, or where there are kernels, theirs.
//!
//! An operation stores its inputs and what its backward kernel cannot recompute cheaply; see the states.

use burn::backend::Autodiff;
#[cfg(feature = "host")]
use burn::backend::{Backend, tensor::FloatTensor};
#[cfg(feature = "host")]
use burn_autodiff::{
    checkpoint::base::Checkpointer,
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;

use super::AttentionOps;
#[cfg(feature = "host")]
use super::{HostBackend, MaskPrimitive, composed, kernels, kernels::HostMask};

#[cfg(not(feature = "host"))]
impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {}

#[cfg(feature = "host")]
impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn additive_score(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: MaskPrimitive<Self>,
    ) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::additive_score::<Self>(queries, keys, weight, mask);
        }
        let mask = HostMask::read::<B>(inner(mask));
        let (queries, query_node) = queries.into_parts();
        let (keys, key_node) = keys.into_parts();
        let (weight, weight_node) = weight.into_parts();
        let scores =
            kernels::additive_score::<B>(queries.clone(), keys.clone(), weight.clone(), &mask);
        let nodes = [query_node, key_node, weight_node];
        match AdditiveScore.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((queries, keys, weight, mask), scores),
            OpsKind::UnTracked(prep) => prep.finish(scores),
        }
    }

    fn masked_softmax(scores: FloatTensor<Self>, mask: MaskPrimitive<Self>) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::masked_softmax::<Self>(scores, mask);
        }
        let mask = HostMask::read::<B>(inner(mask));
        let (scores, node) = scores.into_parts();
        let weights = kernels::masked_softmax::<B>(scores, &mask);
        match MaskedSoftmax.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(weights.clone(), weights),
            OpsKind::UnTracked(prep) => prep.finish(weights),
        }
    }
}

/// The mask on the inner backend: integers and booleans are the same there.
#[cfg(feature = "host")]
fn inner<B: Backend, C: CheckpointStrategy>(mask: MaskPrimitive<Autodiff<B, C>>) -> MaskPrimitive<B> {
    match mask {
        MaskPrimitive::None => MaskPrimitive::None,
        MaskPrimitive::Intervals { start, end } => MaskPrimitive::Intervals { start, end },
        MaskPrimitive::Dense { keep } => MaskPrimitive::Dense { keep },
        MaskPrimitive::IntervalsAndDense { start, end, keep } => {
            MaskPrimitive::IntervalsAndDense { start, end, keep }
        }
    }
}

#[cfg(feature = "host")]
#[derive(Debug)]
struct AdditiveScore;

#[cfg(feature = "host")]
impl<B: HostBackend> Backward<B, 3> for AdditiveScore {
    /// Queries, keys, weight and mask.
    type State = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, HostMask);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (queries, keys, weight, mask) = ops.state;
        let gradients =
            kernels::additive_score_backward::<B>(queries, keys, weight, &mask, grad);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

#[cfg(feature = "host")]
#[derive(Debug)]
struct MaskedSoftmax;

#[cfg(feature = "host")]
impl<B: HostBackend> Backward<B, 1> for MaskedSoftmax {
    /// The weights.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            kernels::masked_softmax_backward::<B>(ops.state, grad)
        });
    }
}
