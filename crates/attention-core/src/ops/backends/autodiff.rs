//! Training: an operation with a kernel is one node of the graph, with the kernel's gradient; one without is composed,
//! and differentiated operation by operation, but for a recurrent layer, whose definition has a gradient of its own.

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend, TensorMetadata};
use burn::tensor::Shape;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};

use super::nodes::Nodes;
use crate::ops::attention_backend::SumDeferred;
use crate::ops::deferred_gradients::{Deferral, Deferred, Pass};
use crate::ops::kernel::{self, Asked, Gradient, Kernel};
use crate::ops::paths::{self, Operation};
use crate::ops::recurrent::states::StateDeposit;
use crate::ops::tracked::TrackedInputs;
use crate::ops::{
    AdditiveAttentionInputs, AdditiveScoreInputs, AttentionOps, CrossEntropyInputs,
    DotProductAttentionInputs, GradientSlot, LinearInputs, MaskedSoftmaxInputs,
    PackAdditiveKeysInputs, RecurrentInputs, SelectRowsInputs, StepsRead, additive_attention,
    additive_score, cross_entropy, dot_product_attention, linear, masked_softmax, recurrent,
    select_rows,
};

impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn additive_score(inputs: AdditiveScoreInputs<Self>) -> FloatTensor<Self> {
        differentiate(
            Operation::AdditiveScore,
            B::KERNELS.additive_score,
            inputs,
            additive_score::composed::forward,
        )
    }

    fn masked_softmax(inputs: MaskedSoftmaxInputs<Self>) -> FloatTensor<Self> {
        differentiate(
            Operation::MaskedSoftmax,
            B::KERNELS.masked_softmax,
            inputs,
            masked_softmax::composed::forward,
        )
    }

    fn dot_product_attention(inputs: DotProductAttentionInputs<Self>) -> FloatTensor<Self> {
        differentiate(
            Operation::DotProductAttention,
            B::KERNELS.dot_product_attention,
            inputs,
            dot_product_attention::composed::forward,
        )
    }

    fn additive_attention(inputs: AdditiveAttentionInputs<Self>) -> FloatTensor<Self> {
        differentiate(
            Operation::AdditiveAttention,
            B::KERNELS.additive_attention,
            inputs,
            additive_attention::composed::forward,
        )
    }

    fn linear(inputs: LinearInputs<Self>) -> FloatTensor<Self> {
        differentiate(
            Operation::Linear,
            B::KERNELS.linear,
            inputs,
            linear::composed::forward,
        )
    }

    fn select_rows(inputs: SelectRowsInputs<Self>) -> FloatTensor<Self> {
        differentiate(
            Operation::SelectRows,
            B::KERNELS.select_rows,
            inputs,
            select_rows::composed,
        )
    }

    fn cross_entropy(inputs: CrossEntropyInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::KERNELS.cross_entropy;
        let Some(kernel) = which::<B, C, _>(Operation::CrossEntropy, kernel, &inputs.input) else {
            return cross_entropy::composed::forward(inputs);
        };
        let tensors = [
            Some(&inputs.input),
            Some(&inputs.weight),
            inputs.bias.as_option(),
        ];
        if tensors
            .into_iter()
            .flatten()
            .any(|tensor| tensor.is_tracked())
        {
            differentiate_by(kernel.train, inputs)
        } else {
            Self::from_inner((kernel.infer)(inputs.map(&mut Nodes::<B, C>::default())))
        }
    }

    fn recurrent(inputs: RecurrentInputs<Self>) -> FloatTensor<Self> {
        let kernel = which::<B, C, _>(Operation::Recurrent, B::KERNELS.recurrent, &inputs.gates);
        let kernel = kernel.map_or(recurrent::gradient::kernel(), |kernel| kernel.train);
        let slot = inputs.reads.clone();
        let states = differentiate_by(kernel, inputs);
        if states.is_tracked() {
            slot.open::<StateDeposit<B>>(states.id().value);
        }
        states
    }

    fn read_state(
        states: FloatTensor<Self>,
        index: usize,
        steps: StepsRead,
        slot: GradientSlot,
    ) -> FloatTensor<Self> {
        if !(paths::defers() && slot.is_of(states.id().value)) {
            return recurrent::states::read::<Self>(states, index, steps);
        }
        let (states, node) = states.into_parts();
        let state = recurrent::states::read::<B>(states, index, steps);
        match ReadStateGradient::<B>(PhantomData)
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((index, steps, slot), state),
            OpsKind::UnTracked(prep) => prep.finish(state),
        }
    }

    fn pack_additive_keys(inputs: PackAdditiveKeysInputs<Self>) -> FloatTensor<Self> {
        match B::KERNELS
            .pack_additive_keys
            .filter(|_| Operation::AdditiveAttention.is_on())
        {
            Some(pack) => Self::from_inner(pack(inputs.map(&mut Nodes::<B, C>::default()))),
            None => inputs.keys,
        }
    }

    fn read_shared(
        source: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        slot: GradientSlot,
    ) -> FloatTensor<Self> {
        let (source, node) = source.into_parts();
        let rows = rows.into_primitive();
        let state = SharedState {
            source: source.shape(),
            rows: rows.clone(),
            slot: slot.clone(),
            sum: B::KERNELS.sum_deferred,
        };
        match SharedGradient
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let rows = prep.finish(state, rows);
                slot.open::<Deferred<B>>(rows.id().value);
                rows
            }
            OpsKind::UnTracked(prep) => prep.finish(rows),
        }
    }
}

/// The kernel, if it runs with tensors like this one.
fn which<B: AttentionOps, C: CheckpointStrategy, K>(
    operation: Operation,
    kernel: Option<K>,
    like: &FloatTensor<Autodiff<B, C>>,
) -> Option<K> {
    let has = || (B::KERNELS.runs_on)(&like.device(), like.dtype());
    paths::chosen::<Autodiff<B, C>, K>(operation, kernel, like, has)
}

/// Runs the kernel as a node of the graph, or else the definition.
fn differentiate<B, C, I, S, const N: usize>(
    operation: Operation,
    kernel: Option<Kernel<B, I::On<B>, S, N>>,
    inputs: I,
    composed: fn(I) -> FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>>
where
    B: AttentionOps,
    C: CheckpointStrategy,
    I: TrackedInputs<Autodiff<B, C>, N>,
    S: Clone + Send + Debug + 'static,
{
    match which::<B, C, _>(operation, kernel, inputs.first()) {
        Some(kernel) => differentiate_by(kernel, inputs),
        None => composed(inputs),
    }
}

/// Runs the kernel as a node of the graph.
fn differentiate_by<B, C, I, S, const N: usize>(
    Kernel { forward, backward }: Kernel<B, I::On<B>, S, N>,
    inputs: I,
) -> FloatTensor<Autodiff<B, C>>
where
    B: AttentionOps,
    C: CheckpointStrategy,
    I: TrackedInputs<Autodiff<B, C>, N>,
    S: Clone + Send + Debug + 'static,
{
    let slots = inputs.slots();
    let mut nodes = Nodes::<B, C>::default();
    let inputs = inputs.map(&mut nodes);
    // The kernel may write in a tensor's place if nothing else has it.
    drop(nodes.like);
    let (output, saved) = forward(inputs);
    let nodes: [NodeGuard; N] = nodes
        .guards
        .try_into()
        .expect("inputs map as many tensors as they say");
    let state = KernelState {
        saved,
        backward,
        slots,
    };
    let prepared = KernelGradient(PhantomData).prepare::<C>(nodes);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(state, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

/// The gradient of an operation that saved `S`.
#[derive(Debug)]
struct KernelGradient<S>(PhantomData<fn() -> S>);

#[derive(Clone, Debug)]
struct KernelState<B: Backend, S, const N: usize> {
    saved: S,
    backward: kernel::Backward<B, S, N>,
    slots: [Option<GradientSlot>; N],
}

impl<B, S, const N: usize> Backward<B, N> for KernelGradient<S>
where
    B: Backend,
    S: Clone + Send + Debug + 'static,
{
    type State = KernelState<B, S, N>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        let KernelState {
            saved,
            backward,
            slots,
        } = ops.state;
        let nodes = parents.map(|parent| parent.map(|id| id.value));
        let asked = Asked {
            wanted: parents.map(|parent| parent.is_some()),
            deferral: Deferral::of(&slots, nodes),
            taker: Some((Pass::of(grads), ops.node.id.value)),
        };
        let gradients = backward(saved, gradient, asked);
        for ((parent, slot), gradient) in parents.into_iter().zip(slots).zip(gradients) {
            let Some(parent) = parent else { continue };
            match (gradient, slot) {
                (Gradient::Absent, _) => {}
                (Gradient::Whole(gradient), _) => grads.register::<B>(parent, gradient),
                (Gradient::Deferred(deferred), Some(slot)) => {
                    grads.register::<B>(parent, deferred.marker());
                    slot.deposit(Pass::of(grads), parent.value, deferred);
                }
                (Gradient::Deferred(_), None) => {
                    unreachable!("gradients are deferred only for tensors with a slot")
                }
            }
        }
    }
}

/// The gradient of a tensor with several readers, which may deposit theirs.
#[derive(Debug)]
struct SharedGradient;

#[derive(Clone, Debug)]
struct SharedState<B: Backend> {
    /// The shape of the source.
    source: Shape,
    rows: FloatTensor<B>,
    slot: GradientSlot,
    /// `None` where nothing is ever deposited.
    sum: Option<SumDeferred<B>>,
}

impl<B: Backend> Backward<B, 1> for SharedGradient {
    type State = SharedState<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let SharedState {
            source,
            rows,
            slot,
            sum,
        } = ops.state;
        let [parent] = ops.parents;
        let gradient = grads.consume::<B>(&ops.node);
        let is_whole = gradient.shape() == rows.shape(); // or else a marker
        let whole = is_whole.then_some(gradient);
        let deferred = slot.take::<Deferred<B>>(Pass::of(grads), ops.node.id.value);
        let total = match sum.filter(|_| !deferred.is_empty()) {
            Some(sum) => {
                let total = sum(deferred, rows);
                Some(match whole {
                    Some(whole) => B::float_add(total, whole),
                    None => total,
                })
            }
            None => whole,
        };
        if let (Some(parent), Some(total)) = (parent, total) {
            grads.register::<B>(parent.id, B::float_reshape(total, source));
        }
    }
}

/// The gradient of a recurrent layer's state that was read, deposited for the backward pass of the layer.
#[derive(Debug)]
struct ReadStateGradient<B>(PhantomData<fn() -> B>);

impl<B: Backend> Backward<B, 1> for ReadStateGradient<B> {
    type State = (usize, StepsRead, GradientSlot);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let ([Some(layer)], (index, steps, slot)) = (ops.parents, ops.state) else {
            return;
        };
        let marker = Shape::from([1; 4]);
        let marker = B::float_zeros(marker, &gradient.device(), gradient.dtype().into());
        grads.register::<B>(layer.id, marker);
        let deposit = StateDeposit::<B> {
            index,
            steps,
            gradient,
        };
        slot.deposit(Pass::of(grads), layer.id.value, deposit);
    }
}
