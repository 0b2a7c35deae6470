//! The backward passes of the kernels' operations.
//!
//! An operation stores its inputs and what its backward kernel cannot recompute cheaply; see the states.

use attention_kernels::Dropout;
use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use burn_autodiff::NodeId;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, unary};

use super::kernels::{self, AdditiveTensors, Attended, DotTensors, HostMask, Step};
use super::{GradientSlot, HostBackend, SharedGradients};

/// Adds to the gradients of tracked parents.
fn register<B: Backend, const N: usize>(
    grads: &mut Gradients,
    parents: [Option<NodeId>; N],
    gradients: impl IntoIterator<Item = Option<FloatTensor<B>>>,
) {
    for (parent, gradient) in parents.into_iter().zip(gradients) {
        if let (Some(parent), Some(gradient)) = (parent, gradient) {
            grads.register::<B>(parent, gradient);
        }
    }
}

#[derive(Debug)]
pub(super) struct AdditiveScore;

impl<B: HostBackend> Backward<B, 3> for AdditiveScore {
    /// Queries, keys, weight and mask.
    type State = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, HostMask);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        let (queries, keys, weight, mask) = ops.state;
        let gradients = kernels::additive_score_backward::<B>(queries, keys, weight, &mask, grad);
        register::<B, 3>(grads, parents, gradients.map(Some));
    }
}

#[derive(Debug)]
pub(super) struct MaskedSoftmax;

impl<B: HostBackend> Backward<B, 1> for MaskedSoftmax {
    /// The weights.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            kernels::masked_softmax_backward::<B>(ops.state, grad)
        });
    }
}

#[derive(Debug)]
pub(super) struct DotProductAttention;

/// No weights: they are computed again.
#[derive(Clone, Debug)]
pub(super) struct DotProductState<B: Backend> {
    pub(super) tensors: DotTensors<B>,
    pub(super) mask: HostMask,
    pub(super) dropout: Option<Dropout>,
    pub(super) attended: Attended<B>,
    pub(super) shared: Option<SharedGradients>,
}

/// Of queries, keys and values, and with a fourth parent of the bias.
impl<B: HostBackend, const N: usize> Backward<B, N> for DotProductAttention {
    type State = DotProductState<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        let DotProductState {
            tensors,
            mask,
            dropout,
            attended,
            shared,
        } = ops.state;
        if let Some(shared) = Memory::of(shared, [parents[1], parents[2]])
            && tensors.is_step()
        {
            let like = tensors.keys.clone();
            let step =
                kernels::attention_backward_step::<B>(tensors, &mask, dropout, attended, grad);
            shared.leave::<B>(grads, step.left, &like);
            register::<B, N>(grads, parents, step.whole);
            return;
        }
        let gradients = kernels::attention_backward::<B>(tensors, &mask, dropout, attended, grad);
        register::<B, N>(grads, parents, gradients);
    }
}

#[derive(Debug)]
pub(super) struct AdditiveAttention;

/// No weights and nothing of the size of the hidden units for each pair: they are computed again.
#[derive(Clone, Debug)]
pub(super) struct AdditiveState<B: Backend> {
    pub(super) tensors: AdditiveTensors<B>,
    pub(super) mask: HostMask,
    pub(super) dropout: Option<Dropout>,
    pub(super) attended: Attended<B>,
    pub(super) shared: Option<SharedGradients>,
}

impl<B: HostBackend> Backward<B, 4> for AdditiveAttention {
    type State = AdditiveState<B>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        let AdditiveState {
            tensors,
            mask,
            dropout,
            attended,
            shared,
        } = ops.state;
        if let Some(shared) = Memory::of(shared, [parents[1], parents[2]])
            && tensors.is_step()
        {
            let like = tensors.keys.clone();
            let step =
                kernels::additive_attention_backward_step::<B>(tensors, &mask, dropout, grad);
            shared.leave::<B>(grads, step.left, &like);
            register::<B, 4>(grads, parents, step.whole);
            return;
        }
        let gradients =
            kernels::additive_attention_backward::<B>(tensors, &mask, dropout, attended, grad);
        register::<B, 4>(grads, parents, gradients.map(Some));
    }
}

/// The keys and values of a memory, as the parents of a step.
struct Memory {
    slots: [GradientSlot; 2],
    nodes: [Option<NodeId>; 2],
}

impl Memory {
    /// Those of `shared`, if the tracked ones of `nodes` went through its slots.
    fn of(shared: Option<SharedGradients>, nodes: [Option<NodeId>; 2]) -> Option<Self> {
        let SharedGradients { keys, values } = shared?;
        let slots = [keys, values];
        let mut pairs = slots.iter().zip(nodes);
        let fit = pairs.all(|(slot, node)| node.is_none_or(|node| slot.is_of(node)));
        fit.then_some(Self { slots, nodes })
    }

    /// Leaves what a step has for each gradient. In place of the gradient itself, a single 0 is registered: it says
    /// that there is one.
    fn leave<B: HostBackend>(
        self,
        grads: &mut Gradients,
        steps: [Step<B>; 2],
        like: &FloatTensor<B>,
    ) {
        let pairs = self.slots.into_iter().zip(self.nodes);
        for ((slot, node), step) in pairs.zip(steps) {
            let Some(node) = node else { continue };
            if slot.leave(step) {
                let (device, dtype) = (like.device(), like.dtype());
                grads.register::<B>(node, B::float_zeros([1; 4].into(), &device, dtype.into()));
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct ShareGradients;

#[derive(Clone, Debug)]
pub(super) struct SharedState<B: Backend> {
    pub(super) tensor: FloatTensor<B>,
    pub(super) slot: GradientSlot,
}

impl<B: HostBackend> Backward<B, 1> for ShareGradients {
    type State = SharedState<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let SharedState { tensor, slot } = ops.state;
        let steps = slot.take::<Step<B>>();
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            if steps.is_empty() {
                return grad;
            }
            let total = kernels::total::<B>(steps, &tensor);
            // Readers that are no steps have registered theirs; a single 0 is only the sign that steps have left some.
            let is_sign = grad.shape() == Shape::from([1; 4]) && total.shape() != grad.shape();
            match is_sign {
                true => total,
                false => B::float_add(total, grad),
            }
        });
    }
}
