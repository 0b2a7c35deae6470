//! Training: the composed definitions, differentiated operation by operation, or where there are kernels, theirs (in
//! `backward.rs`).

use burn::backend::Autodiff;
#[cfg(feature = "host")]
use burn::backend::{AutodiffBackend, Backend, ops::FloatTensorOps, tensor::FloatTensor};
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
#[cfg(feature = "host")]
use burn_autodiff::ops::{Backward, OpsKind};

use super::AttentionOps;
#[cfg(feature = "host")]
use super::backward::{
    AdditiveAttention, AdditiveScore, AdditiveState, DotProductAttention, DotProductState,
    MaskedSoftmax, ShareGradients, SharedState,
};
#[cfg(feature = "host")]
use super::kernels::{self, AdditiveTensors, DotTensors, HostMask};
#[cfg(feature = "host")]
use super::{
    AttentionOptions, GradientSlot, MaskPrimitive, OptionalTensor, SharedGradients, composed,
};

#[cfg(not(feature = "host"))]
impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {}

/// The result of an operation, with its state where the graph tracks it.
#[cfg(feature = "host")]
macro_rules! track {
    ($prepared:expr, $state:expr, $output:expr) => {
        match $prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish($state, $output),
            OpsKind::UnTracked(prep) => prep.finish($output),
        }
    };
}

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
        let state = (queries, keys, weight, mask);
        track!(AdditiveScore.prepare::<C>(nodes), state, scores)
    }

    fn masked_softmax(scores: FloatTensor<Self>, mask: MaskPrimitive<Self>) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::masked_softmax::<Self>(scores, mask);
        }
        let mask = HostMask::read::<B>(inner(mask));
        let (scores, node) = scores.into_parts();
        let weights = kernels::masked_softmax::<B>(scores, &mask);
        let state = weights.clone();
        track!(MaskedSoftmax.prepare::<C>([node]), state, weights)
    }

    fn attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        bias: OptionalTensor<Self>,
        mask: MaskPrimitive<Self>,
        options: AttentionOptions,
        shared: Option<SharedGradients>,
    ) -> FloatTensor<Self> {
        if !B::HAS_KERNELS {
            return composed::attention::<Self>(queries, keys, values, bias, mask, options);
        }
        let mask = HostMask::read::<B>(inner(mask));
        let (queries, query_node) = queries.into_parts();
        let (keys, key_node) = keys.into_parts();
        let (values, value_node) = values.into_parts();
        let (bias, bias_node) = bias.into_option().map(|bias| bias.into_parts()).unzip();
        let dropout = kernels::draw_dropout::<B>(options.dropout, &queries);
        let tensors = DotTensors {
            queries,
            keys,
            values,
            bias,
            scale: options.scale,
        };
        let attended = kernels::attention::<B>(tensors.clone(), &mask, dropout);
        let context = attended.context.clone();
        let state = DotProductState {
            tensors,
            mask,
            dropout,
            attended,
            shared,
        };
        let nodes = [query_node, key_node, value_node];
        match bias_node {
            None => track!(DotProductAttention.prepare::<C>(nodes), state, context),
            Some(bias) => {
                let [queries, keys, values] = nodes;
                let nodes = [queries, keys, values, bias];
                track!(DotProductAttention.prepare::<C>(nodes), state, context)
            }
        }
    }

    fn additive_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: MaskPrimitive<Self>,
        packed: OptionalTensor<Self>,
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
        let packed = packed.into_option().map(|packed| packed.into_primitive());
        let dropout = kernels::draw_dropout::<B>(dropout, &queries);
        let tensors = AdditiveTensors {
            queries,
            keys,
            values,
            weight,
            packed,
        };
        let attended = kernels::additive_attention::<B>(tensors.clone(), &mask, dropout);
        let context = attended.context.clone();
        let state = AdditiveState {
            tensors,
            mask,
            dropout,
            attended,
            shared,
        };
        let nodes = [query_node, key_node, value_node, weight_node];
        track!(AdditiveAttention.prepare::<C>(nodes), state, context)
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
        let state = SharedState {
            tensor: tensor.clone(),
            slot: slot.clone(),
        };
        let tensor = track!(ShareGradients.prepare::<C>([node]), state, tensor);
        slot.open(tensor.id());
        tensor
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
