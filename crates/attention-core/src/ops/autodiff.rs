//! Training: the composed definitions, differentiated operation by operation, or where there are kernels, theirs.
//!
//! An operation stores its inputs and what its backward kernel cannot recompute cheaply; see the states.

#[cfg(feature = "host")]
use attention_kernels::Dropout;
use burn::backend::Autodiff;
#[cfg(feature = "host")]
use burn::backend::{AutodiffBackend, Backend, ops::FloatTensorOps, tensor::FloatTensor};
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
#[cfg(feature = "host")]
use burn_autodiff::{
    checkpoint::base::Checkpointer,
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};

use super::AttentionOps;
#[cfg(feature = "host")]
use super::kernels::{self, AdditiveTensors, Attended, HostMask};
#[cfg(feature = "host")]
use super::{
    AttentionOptions, GradientSlot, HostBackend, MaskPrimitive, PackedKeys, SharedGradients,
    composed,
};

#[cfg(not(feature = "host"))]
impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {}

#[cfg(feature = "host")]
impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn fill_padding(tensor: FloatTensor<Self>, mask: MaskPrimitive<Self>) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::fill_padding::<Self>(tensor, mask);
        }
        let mask = HostMask::read::<B>(inner(mask));
        match kernels::padding::<B>(tensor.primitive(), &mask) {
            Some(hidden) => Self::float_mask_fill(tensor, hidden, 0.0.into()),
            None => tensor,
        }
    }

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
        match MaskedSoftmax
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish(weights.clone(), weights),
            OpsKind::UnTracked(prep) => prep.finish(weights),
        }
    }

    fn attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        mask: MaskPrimitive<Self>,
        options: AttentionOptions,
        shared: Option<SharedGradients>,
    ) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::attention::<Self>(queries, keys, values, mask, options);
        }
        let mask = HostMask::read::<B>(inner(mask));
        let (queries, query_node) = queries.into_parts();
        let (keys, key_node) = keys.into_parts();
        let (values, value_node) = values.into_parts();
        let dropout = kernels::draw_dropout::<B>(options.dropout, &queries);
        let inputs = [queries, keys, values];
        let scale = options.scale;
        let attended = kernels::attention::<B>(inputs.clone(), &mask, scale, dropout);
        let Attended { context, lse } = attended;
        let nodes = [query_node, key_node, value_node];
        match DotProductAttention
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let state = DotProductState {
                    inputs,
                    mask,
                    scale,
                    dropout,
                    context: context.clone(),
                    lse,
                    shared,
                };
                prep.finish(state, context)
            }
            OpsKind::UnTracked(prep) => prep.finish(context),
        }
    }

    fn additive_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: MaskPrimitive<Self>,
        packed: PackedKeys<Self>,
        dropout: f64,
        shared: Option<SharedGradients>,
    ) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::additive_attention::<Self>(
                queries, keys, values, weight, mask, dropout,
            );
        }
        let mask = HostMask::read::<B>(inner(mask));
        let (queries, query_node) = queries.into_parts();
        let (keys, key_node) = keys.into_parts();
        let (values, value_node) = values.into_parts();
        let (weight, weight_node) = weight.into_parts();
        let packed = packed.keys().map(|packed| packed.into_primitive());
        let dropout = kernels::draw_dropout::<B>(dropout, &queries);
        let tensors = AdditiveTensors {
            queries,
            keys,
            values,
            weight,
            packed,
        };
        let attended = kernels::additive_attention::<B>(tensors.clone(), &mask, dropout);
        let Attended { context, lse } = attended;
        let nodes = [query_node, key_node, value_node, weight_node];
        match AdditiveAttention
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let state = AdditiveState {
                    tensors,
                    mask,
                    dropout,
                    context: context.clone(),
                    lse,
                    shared,
                };
                prep.finish(state, context)
            }
            OpsKind::UnTracked(prep) => prep.finish(context),
        }
    }

    /// Untracked: gradients go to the keys themselves.
    fn pack_additive_keys(
        keys: FloatTensor<Self>,
        mask: MaskPrimitive<Self>,
        num_queries: usize,
    ) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return keys;
        }
        let mask = HostMask::read::<B>(inner(mask));
        let packed = kernels::pack_additive_keys::<B>(keys.into_primitive(), &mask, num_queries);
        <Self as AutodiffBackend>::from_inner(packed)
    }

    fn share_gradients(tensor: FloatTensor<Self>, slot: GradientSlot) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return tensor;
        }
        let (tensor, node) = tensor.into_parts();
        match ShareGradients
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish(slot, tensor),
            OpsKind::UnTracked(prep) => prep.finish(tensor),
        }
    }
}

/// The mask on the inner backend: integers and booleans are the same there.
#[cfg(feature = "host")]
fn inner<B: Backend, C: CheckpointStrategy>(
    mask: MaskPrimitive<Autodiff<B, C>>,
) -> MaskPrimitive<B> {
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
        let gradients = kernels::additive_score_backward::<B>(queries, keys, weight, &mask, grad);
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

#[cfg(feature = "host")]
#[derive(Debug)]
struct DotProductAttention;

/// No weights: they are computed again.
#[cfg(feature = "host")]
#[derive(Clone, Debug)]
struct DotProductState<B: Backend> {
    /// Queries, keys and values.
    inputs: [FloatTensor<B>; 3],
    mask: HostMask,
    scale: f64,
    dropout: Option<Dropout>,
    context: FloatTensor<B>,
    lse: FloatTensor<B>,
    shared: Option<SharedGradients>,
}

#[cfg(feature = "host")]
impl<B: HostBackend> Backward<B, 3> for DotProductAttention {
    type State = DotProductState<B>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let DotProductState {
            inputs,
            mask,
            scale,
            dropout,
            context,
            lse,
            shared,
        } = ops.state;
        let [_, keys, values] = &ops.parents;
        let slots = shared.unwrap_or_default();
        let existing = [
            slots.keys.take(keys, |node| grads.consume::<B>(node)),
            slots.values.take(values, |node| grads.consume::<B>(node)),
        ];
        let attended = Attended { context, lse };
        let gradients = kernels::attention_backward::<B>(
            inputs, &mask, scale, dropout, attended, grad, existing,
        );
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

#[cfg(feature = "host")]
#[derive(Debug)]
struct AdditiveAttention;

/// No weights and nothing of the size of the hidden units for each pair: they are computed again.
#[cfg(feature = "host")]
#[derive(Clone, Debug)]
struct AdditiveState<B: Backend> {
    tensors: AdditiveTensors<B>,
    mask: HostMask,
    dropout: Option<Dropout>,
    context: FloatTensor<B>,
    lse: FloatTensor<B>,
    shared: Option<SharedGradients>,
}

#[cfg(feature = "host")]
impl<B: HostBackend> Backward<B, 4> for AdditiveAttention {
    type State = AdditiveState<B>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let AdditiveState {
            tensors,
            mask,
            dropout,
            context,
            lse,
            shared,
        } = ops.state;
        let [_, keys, values, _] = &ops.parents;
        let slots = shared.unwrap_or_default();
        let existing = [
            slots.keys.take(keys, |node| grads.consume::<B>(node)),
            slots.values.take(values, |node| grads.consume::<B>(node)),
        ];
        let attended = Attended { context, lse };
        let gradients = kernels::additive_attention_backward::<B>(
            tensors, &mask, dropout, attended, grad, existing,
        );
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

#[cfg(feature = "host")]
#[derive(Debug)]
struct ShareGradients;

#[cfg(feature = "host")]
impl<B: Backend> Backward<B, 1> for ShareGradients {
    type State = GradientSlot;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        ops.state.reset();
        unary::<B, _>(ops.parents, ops.node, grads, |grad| grad);
    }
}
