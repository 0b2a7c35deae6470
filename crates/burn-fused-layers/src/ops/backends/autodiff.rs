//! Training: an operation with a kernel is one node of the graph, with the kernel's gradient; one without is composed,
//! and differentiated operation by operation, but for activations, normalizations and recurrent layers, whose
//! definitions have gradients of their own.

use std::marker::PhantomData;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend};
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use crate::harness::deferred_gradients::{GradientSlot, marker};
use crate::harness::differentiate::{
    self, differentiate, differentiate_trained, off_graph, pass_of,
};
use crate::ops::recurrent::states::StateDeposit;
use crate::ops::{
    ActivateInputs, ActivateLinearInputs, DropoutFactorsInputs, LayerOps, LinearCrossEntropyInputs,
    LinearInputs, NormalizeInputs, RecurrentInputs, SelectRowsInputs, StepsRead, activate,
    activate_linear, linear, linear_cross_entropy, normalize, recurrent, select_rows,
};
use crate::paths::{self, Operation};

impl<B: LayerOps, C: CheckpointStrategy> LayerOps for Autodiff<B, C> {
    fn linear(inputs: LinearInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::LAYERS.linear;
        match B::LAYERS.which::<Self, _>(Operation::Linear, kernel, &inputs.input) {
            Some(kernel) => differentiate(kernel, inputs),
            None => linear::composed::forward(inputs),
        }
    }

    fn select_rows(inputs: SelectRowsInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::LAYERS.select_rows;
        match B::LAYERS.which::<Self, _>(Operation::SelectRows, kernel, &inputs.table) {
            Some(kernel) => differentiate(kernel, inputs),
            None => select_rows::composed(inputs),
        }
    }

    fn activate(inputs: ActivateInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::LAYERS.activate;
        let kernel = B::LAYERS.which::<Self, _>(Operation::Activate, kernel, &inputs.input);
        differentiate(kernel.unwrap_or(activate::composed::kernel()), inputs)
    }

    fn activate_linear(inputs: ActivateLinearInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::LAYERS.activate_linear;
        match B::LAYERS.which::<Self, _>(Operation::ActivateLinear, kernel, &inputs.input) {
            Some(kernel) => differentiate(kernel, inputs),
            None => activate_linear::composed::forward(inputs),
        }
    }

    fn normalize(inputs: NormalizeInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::LAYERS.normalize;
        let kernel = B::LAYERS.which::<Self, _>(Operation::Normalize, kernel, &inputs.input);
        differentiate(kernel.unwrap_or(normalize::composed::kernel()), inputs)
    }

    fn dropout_factors(inputs: DropoutFactorsInputs<Self>) -> FloatTensor<Self> {
        Self::from_inner(B::dropout_factors(off_graph::<B, C, _, 1>(inputs)))
    }

    fn linear_cross_entropy(
        inputs: LinearCrossEntropyInputs<Self>,
    ) -> (FloatTensor<Self>, IntTensor<Self>) {
        let (kernel, operation) = (
            B::LAYERS.linear_cross_entropy,
            Operation::LinearCrossEntropy,
        );
        match B::LAYERS.which::<Self, _>(operation, kernel, &inputs.input) {
            Some(kernel) => differentiate_trained(kernel, inputs, |results| results),
            None => linear_cross_entropy::composed::forward(inputs),
        }
    }

    fn recurrent(inputs: RecurrentInputs<Self>) -> FloatTensor<Self> {
        let kernel = B::LAYERS.recurrent;
        let kernel = B::LAYERS.which::<Self, _>(Operation::Recurrent, kernel, &inputs.gates);
        let kernel = kernel.unwrap_or(recurrent::gradient::kernel());
        let slot = inputs.reads.clone();
        let (states, ()) = differentiate_trained(kernel, inputs, |states| (states, ()));
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

    fn read_shared(
        source: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        slot: GradientSlot,
    ) -> FloatTensor<Self> {
        differentiate::read_shared::<B, C>(source, rows, slot)
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
        let pass = pass_of::<B>(grads, &gradient);
        grads.register::<B>(layer.id, marker::<B, 4>(&gradient));
        let deposit = StateDeposit::<B> {
            index,
            steps,
            gradient,
        };
        slot.deposit(pass, layer.id.value, deposit);
    }
}
