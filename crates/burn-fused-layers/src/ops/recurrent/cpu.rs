//! Runs in the kernels of `cpu-kernels`.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::{
    GruInputs, Level, LstmInputs, Matrix, ProductStart, RecurrentGradients, RecurrentOutputs,
    column_sums, product,
};

use super::states::StateGradients;
use super::{CellKind, Recurred, RecurrentInputs};
use crate::harness::deferred_gradients::Deferral;
use crate::harness::host::{
    CpuBackend, CpuReal, elements, elements_mut, tensor, unwritten, whole, with_compiled,
};
use crate::harness::kernel::{Asked, Gradient};
use crate::ops::deferred_rows::DeferredRows;

/// Runs `$body` with the kernel's view of the inputs, without gates, as `$layer`, in the cell's own type.
macro_rules! with_layer {
    ($inputs:ident, $E:ident, $layer:ident => $body:expr) => {{
        let [batch, steps, _] = $inputs.gates.shape().dims();
        let [size, _] = $inputs.hidden_weight.shape().dims();
        macro_rules! layer {
            ($kind:ident) => {
                $kind::<$E> {
                    hidden_weight: elements::<B, $E>(&$inputs.hidden_weight),
                    hidden_bias: elements::<B, $E>(&$inputs.hidden_bias),
                    initial: elements::<B, $E>(&$inputs.initial),
                    lens: $inputs.steps.lens.as_deref(),
                    is_reversed: $inputs.steps.is_reversed,
                    packings: $inputs.shared.as_ref().map(|shared| shared.packings()),
                    sizes: [batch, steps, size],
                }
            };
        }
        match $inputs.cell {
            CellKind::Gru => {
                let $layer = layer!(GruInputs);
                $body
            }
            CellKind::Lstm => {
                let $layer = layer!(LstmInputs);
                $body
            }
        }
    }};
}

/// The states.
pub(crate) fn infer<B: CpuBackend>(inputs: RecurrentInputs<B>) -> FloatTensor<B> {
    let inputs = contiguous(inputs);
    let shape = states_shape(&inputs);
    with_compiled!(inputs.gates.dtype(), E => {
        let mut states = unwritten::<E>(&shape.into());
        let gates = elements::<B, E>(&inputs.gates);
        with_layer!(inputs, E, layer => layer.forward(Level::current(), gates, &mut states));
        tensor::<B, E>(states, shape, E::DTYPE, &inputs.gates)
    })
}

/// The states, and what the backward pass needs; it has the values of the gates instead of their input projections.
pub(crate) fn train<B: CpuBackend>(
    inputs: RecurrentInputs<B>,
    _wanted: [bool; 4],
) -> (FloatTensor<B>, Recurred<B>) {
    let mut inputs = contiguous(inputs);
    let shape @ [_, batch, steps, size] = states_shape(&inputs);
    let (states, saved) = with_compiled!(inputs.gates.dtype(), E => {
        let values = match inputs.cell {
            CellKind::Gru => GruInputs::<E>::SAVED,
            CellKind::Lstm => LstmInputs::<E>::SAVED,
        };
        let saved_shape = [batch, steps, values * size];
        let mut states = unwritten::<E>(&shape.into());
        // All are written except steps past an example's length, which are never read.
        let mut saved = unwritten::<E>(&saved_shape.into());
        with_layer!(inputs, E, layer => {
            let gates = elements_mut::<B, E>(&mut inputs.gates);
            layer.forward_saving(Level::current(), gates, &mut saved, &mut states);
        });
        (
            tensor::<B, E>(states, shape, E::DTYPE, &inputs.gates),
            tensor::<B, E>(saved, saved_shape, E::DTYPE, &inputs.gates),
        )
    });
    let recurred = Recurred {
        inputs,
        states: states.clone(),
        saved,
    };
    (states, recurred)
}

fn contiguous<B: CpuBackend>(inputs: RecurrentInputs<B>) -> RecurrentInputs<B> {
    RecurrentInputs {
        gates: B::contiguous(inputs.gates),
        hidden_weight: B::contiguous(inputs.hidden_weight),
        hidden_bias: B::contiguous(inputs.hidden_bias),
        initial: B::contiguous(inputs.initial),
        ..inputs
    }
}

fn states_shape<B: CpuBackend>(inputs: &RecurrentInputs<B>) -> [usize; 4] {
    let [batch, steps, _] = inputs.gates.shape().dims();
    let [size, _] = inputs.hidden_weight.shape().dims();
    [inputs.cell.states(), batch, steps, size]
}

/// The requested gradients of gates, hidden weight, hidden bias and initial state.
pub(crate) fn backward<B: CpuBackend>(
    Recurred {
        inputs,
        states,
        saved,
    }: Recurred<B>,
    gradient: FloatTensor<B>,
    asked: Asked<4>,
) -> [Gradient<B>; 4] {
    // With a server, weight, bias and initial state are those from before the forward pass.
    let mut inputs = contiguous(inputs);
    let gradients = StateGradients::new(&inputs, &states, gradient, &asked);
    let [of_steps, last] = [gradients.of_steps, gradients.last].map(|tensors| {
        let contiguous = tensors.into_iter().map(|tensor| tensor.map(B::contiguous));
        contiguous.collect::<Vec<_>>()
    });
    let [of_gates, of_weight, of_bias, of_initial] = asked.wanted;
    let [batch, steps, width] = inputs.gates.shape().dims();
    let [size, _] = inputs.hidden_weight.shape().dims();
    let rows = batch * steps;
    with_compiled!(states.dtype(), E => {
        // Only for weight and bias; in an LSTM it equals the gradient of the input projection.
        let has_hidden = inputs.cell == CellKind::Gru && (of_weight || of_bias);
        let mut hidden = has_hidden.then(|| unwritten::<E>(&[rows, width].into()));
        let mut initial = of_initial.then(|| unwritten::<E>(&inputs.initial.shape()));
        let mut before = of_weight.then(|| unwritten::<E>(&[rows, size].into()));
        with_layer!(inputs, E, layer => {
            let outputs = RecurrentOutputs {
                states: elements::<B, E>(&states),
                saved: elements::<B, E>(&saved),
                gradient: of_each::<B, E, _>(&of_steps),
                last_gradient: of_each::<B, E, _>(&last),
            };
            let gradients = RecurrentGradients {
                gates: elements_mut::<B, E>(&mut inputs.gates),
                hidden: hidden.as_deref_mut(),
                initial: initial.as_deref_mut(),
            };
            layer.backward(Level::current(), &outputs, gradients);
            if let Some(before) = &mut before {
                layer.outputs_before(outputs.states, before);
            }
        });
        let gates = inputs.gates;
        let hidden = match hidden {
            Some(hidden) => tensor::<B, E>(hidden, [rows, width], E::DTYPE, &states),
            None => B::float_reshape(gates.clone(), [rows, width].into()),
        };
        let bias = of_bias.then(|| {
            let mut sums = unwritten::<E>(&[width].into());
            column_sums(elements::<B, E>(&hidden), &mut sums);
            whole::<B, E>(sums, E::DTYPE, &inputs.hidden_bias)
        });
        let weight = before.map(|before| {
            if asked.deferral == Deferral::Allowed {
                return Gradient::Deferred(Box::new(DeferredRows::Product {
                    input: tensor::<B, E>(before, [rows, size], E::DTYPE, &states),
                    gradient: hidden,
                }));
            }
            let mut weight = unwritten::<E>(&inputs.hidden_weight.shape());
            let before = Matrix::new(&before, [rows, size]).transposed();
            let hidden = Matrix::new(elements::<B, E>(&hidden), [rows, width]);
            product(Level::current(), before, hidden, ProductStart::Zero, &mut weight);
            whole::<B, E>(weight, E::DTYPE, &inputs.hidden_weight)
        });
        [
            of_gates.then_some(Gradient::Whole(gates)),
            weight,
            bias,
            initial.map(|initial| whole::<B, E>(initial, E::DTYPE, &inputs.initial)),
        ]
        .map(Option::unwrap_or_default)
    })
}

/// The elements of each of `N` contiguous tensors; empty for an absent tensor.
fn of_each<B: CpuBackend, E: CpuReal, const N: usize>(
    tensors: &[Option<FloatTensor<B>>],
) -> [&[E]; N] {
    std::array::from_fn(|n| tensors[n].as_ref().map_or(&[][..], elements::<B, E>))
}
