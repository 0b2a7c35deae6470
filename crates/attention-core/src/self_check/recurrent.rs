//! Recurrent layers, on a device and by the CPU's kernels in f64.

use burn::tensor::{Device, Tensor};
use cpu_kernels::{
    GruInputs, Level, LstmInputs, Matrix, ProductStart, RecurrentGradients, RecurrentOutputs,
    column_sums, product,
};

use super::case::draw;
use super::operations::{Measured, Run, leaf, measure, read, tensor};
use crate::functional;
use crate::recurrent::{CellKind, Steps};

const BATCH: usize = 3;
const STEPS: usize = 7;
const SIZE: usize = 19;

/// The layers.
pub(super) const ALL: [(&str, CellKind); 2] = [
    ("recurrent layer, GRU", CellKind::Gru),
    ("recurrent layer, LSTM", CellKind::Lstm),
];

/// Which steps there are, and what the others hold.
pub(super) struct Case {
    pub(super) name: &'static str,
    lens: Option<[usize; BATCH]>,
    is_reversed: bool,
    /// Whether the gates after the steps of an example are NaN.
    poisoned: bool,
}

impl Case {
    pub(super) fn all() -> [Self; 3] {
        let lens = Some([STEPS, 4, 0]);
        let case = |name, lens, is_reversed, poisoned| Self {
            name,
            lens,
            is_reversed,
            poisoned,
        };
        [
            case("all steps", None, false, false),
            case("padding, reversed", lens, true, false),
            case("NaN in the padding", lens, false, true),
        ]
    }

    fn steps(&self) -> Steps {
        let steps = self.lens.map_or_else(Steps::all, Steps::of_lens);
        if self.is_reversed {
            steps.reversed()
        } else {
            steps
        }
    }

    /// `[BATCH, STEPS, width]`
    fn gates(&self, width: usize) -> Vec<f64> {
        let mut gates = draw(6, [1, BATCH, STEPS, width], 1.0);
        if let (true, Some(lens)) = (self.poisoned, self.lens) {
            for (index, gates) in gates.chunks_exact_mut(width).enumerate() {
                if index % STEPS >= lens[index / STEPS] {
                    gates.fill(f64::NAN);
                }
            }
        }
        gates
    }
}

/// The states, and the gradients of gates, weight, bias and initial state, by the kernels of a cell.
macro_rules! by_kernels {
    ($layer:ident, $case:expr, $operands:expr, $gradient:expr) => {{
        let [gates, hidden_weight, hidden_bias, initial] = $operands;
        let layer = $layer::<f64> {
            hidden_weight,
            hidden_bias,
            initial,
            lens: $case.lens.as_ref().map(|lens| &lens[..]),
            is_reversed: $case.is_reversed,
            packings: None,
            sizes: [BATCH, STEPS, SIZE],
        };
        let rows = BATCH * STEPS;
        let zeros = |len| vec![0.0; len];
        let mut states = zeros($gradient.len());
        let mut saved = zeros($layer::<f64>::SAVED * rows * SIZE);
        let mut of_gates = gates.to_vec();
        layer.forward_saving(Level::current(), &mut of_gates, &mut saved, &mut states);
        let [mut of_hidden, mut of_initial] = [gates, initial].map(|like| zeros(like.len()));
        let outputs = RecurrentOutputs {
            states: &states,
            saved: &saved,
            gradient: std::array::from_fn(|n| &$gradient[n * rows * SIZE..][..rows * SIZE]),
            last_gradient: Default::default(),
        };
        let gradients = RecurrentGradients {
            gates: &mut of_gates,
            hidden: &mut of_hidden,
            initial: &mut of_initial,
        };
        layer.backward(Level::current(), &outputs, gradients);
        let mut before = zeros(rows * SIZE);
        layer.outputs_before(&states, &mut before);
        let (mut of_weight, mut of_bias) = (zeros(hidden_weight.len()), zeros(hidden_bias.len()));
        let before = Matrix::new(&before, [rows, SIZE]).transposed();
        let hidden = Matrix::new(&of_hidden, [rows, hidden_bias.len()]);
        let start = ProductStart::Zero;
        product(Level::current(), before, hidden, start, &mut of_weight);
        column_sums(&of_hidden, &mut of_bias);
        [states, of_gates, of_weight, of_bias, of_initial]
    }};
}

/// Checks a layer in a case, forward and backward.
pub(super) fn check(cell: CellKind, case: &Case, device: &Device) -> [Measured; 2] {
    let (width, states) = (cell.gates() * SIZE, cell.states());
    let gates = case.gates(width);
    let weight = draw(7, [1, 1, SIZE, width], 0.3);
    let bias = draw(8, [1, 1, 1, width], 0.3);
    let initial = draw(9, [1, states, BATCH, SIZE], 0.5);
    let shape = [states, BATCH, STEPS, SIZE];
    let gradient = draw(10, shape, 1.0);
    let operands = [&gates, &weight, &bias, &initial].map(Vec::as_slice);
    let expected = match cell {
        CellKind::Gru => by_kernels!(GruInputs, case, operands, &gradient),
        CellKind::Lstm => by_kernels!(LstmInputs, case, operands, &gradient),
    };
    measure(expected, || {
        let gates = leaf(&gates, [BATCH, STEPS, width], device);
        let weight = leaf(&weight, [SIZE, width], device);
        let bias = leaf(&bias, [width], device);
        let initial = leaf(&initial, [states, BATCH, SIZE], device);
        let hidden = (weight.clone(), bias.clone());
        let result = functional::recurrent(
            cell,
            gates.clone(),
            hidden,
            None,
            initial.clone(),
            case.steps(),
        );
        let backward = move |loss: Tensor<1>| {
            let grads = loss.backward();
            vec![
                read(gates.grad(&grads)),
                read(weight.grad(&grads)),
                read(bias.grad(&grads)),
                read(initial.grad(&grads)),
            ]
        };
        Run::new(result.all(), tensor(&gradient, shape, device), backward)
    })
}
