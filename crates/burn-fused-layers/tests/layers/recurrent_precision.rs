//! The error of recurrent layers, beside the error of Burn's operations composed in the same precision: at most twice
//! as much, of a gradient three times, or 1e-6 of the largest element.
//!
//! Errors are random: the errors of some draws are summed up.

use attention_tests::{Array, device};
use burn::tensor::{DType, Device, Tensor, activation};
use burn_fused_layers::recurrent::{CellKind, Steps};

use crate::leaves::Leaves;

const BATCH: usize = 2;
const STEPS: usize = 60;
const SIZE: usize = 64;
const SEEDS: u64 = 2;

/// The inputs of a layer, and the gradient that its states receive.
struct Inputs {
    gates: Array,
    weight: Array,
    bias: Array,
    initial: Array,
    received: Array,
}

impl Inputs {
    /// With the standard deviation and the mean of the gates and of the states before the first step.
    fn draw(cell: CellKind, seed: u64, gates: [f64; 2], initial: [f64; 2]) -> Self {
        let (states, width) = (cell.states(), cell.gates() * SIZE);
        let draw = |index: u64, shape: &[usize], [deviation, mean]: [f64; 2]| {
            // `draw` is uniform in -2..2.
            let scaled = |x: f64| f64::from((x * 0.75_f64.sqrt() * deviation + mean) as f32);
            Array::draw(100 * seed + index, shape).map(scaled)
        };
        let of_unit = 1.0 / (SIZE as f64).sqrt();
        Self {
            gates: draw(1, &[BATCH, STEPS, width], gates),
            weight: draw(2, &[SIZE, width], [of_unit, 0.0]),
            bias: draw(3, &[width], [0.5, 0.0]),
            initial: draw(4, &[states, BATCH, SIZE], initial),
            received: draw(5, &[states, BATCH, STEPS, SIZE], [1.0, 0.0]),
        }
    }

    /// The states by `layer`, and the gradients of its four inputs.
    fn run(
        &self,
        device: &Device,
        dtype: DType,
        layer: impl Fn(Leaves) -> Tensor<4>,
    ) -> Vec<Array> {
        let leaves = Leaves {
            gates: self.gates.leaf::<3>(device, dtype),
            weight: self.weight.leaf::<2>(device, dtype),
            bias: self.bias.leaf::<1>(device, dtype),
            initial: self.initial.leaf::<3>(device, dtype),
        };
        let states = layer(leaves.clone());
        let received = self.received.tensor::<4>(device, dtype);
        let gradients = (states.clone() * received).sum().backward();
        let mut results = vec![Array::read(states)];
        results.extend(leaves.gradients(&gradients));
        results
    }
}

impl Leaves {
    /// By the formulas, a step at a time.
    fn plain(self, cell: CellKind) -> Tensor<4> {
        // Burn's own computes f64 in f32 on some backends (0.22.1).
        let sigmoid = |x: Tensor<2>| match x.dtype() {
            DType::F64 => (x.neg().exp() + 1.0).recip(),
            _ => activation::sigmoid(x),
        };
        let state = |n: usize| self.initial.clone().narrow(0, n, 1).squeeze_dim::<2>(0);
        let mut states: Vec<Tensor<2>> = (0..cell.states()).map(state).collect();
        let mut all = Vec::new();
        for step in 0..STEPS {
            let inputs = self.gates.clone().narrow(1, step, 1).squeeze_dim::<2>(1);
            let hidden = states[0].clone().matmul(self.weight.clone());
            let hidden = hidden + self.bias.clone().unsqueeze_dim::<2>(0);
            let inputs = inputs.chunk(cell.gates(), 1);
            let hidden = hidden.chunk(cell.gates(), 1);
            let sum = |gate: usize| inputs[gate].clone() + hidden[gate].clone();
            states = match cell {
                CellKind::Gru => {
                    let (reset, update) = (sigmoid(sum(0)), sigmoid(sum(1)));
                    let new = (inputs[2].clone() + reset * hidden[2].clone()).tanh();
                    let kept = update.clone() * states[0].clone();
                    vec![(update.neg() + 1.0) * new + kept]
                }
                CellKind::Lstm => {
                    let [input, forget, output] = [0, 1, 3].map(|gate| sigmoid(sum(gate)));
                    let cell = forget * states[1].clone() + input * sum(2).tanh();
                    vec![output * cell.clone().tanh(), cell]
                }
            };
            all.push(Tensor::stack::<3>(states.clone(), 0));
        }
        Tensor::stack(all, 2)
    }
}

fn error(actual: &Array, expected: &Array) -> f64 {
    let pairs = actual.data.iter().zip(&expected.data);
    pairs.map(|(a, e)| (a - e).abs()).fold(0.0, f64::max)
}

/// Gates of all sizes, gates that keep nearly all or nearly nothing, and states from around 0 and from far away.
#[test]
fn states_and_gradients_are_as_precise_as_the_plain_composition() {
    let exact = &device::plain()[0].clone().autodiff();
    let names = ["states", "gates", "weight", "bias", "initial state"];
    device::each_training(|device| {
        for cell in [CellKind::Gru, CellKind::Lstm] {
            for (gates, initial) in [
                ([1.0, 0.0], [0.7, 0.0]),
                ([4.0, 3.0], [4.0, 3.0]),
                ([1.0, 14.0], [0.7, 0.0]),
                ([1.0, 14.0], [4.0, 3.0]),
                ([1.0, -14.0], [4.0, 3.0]),
            ] {
                let mut sums = [[0.0; 3]; 5];
                for seed in 0..SEEDS {
                    let inputs = Inputs::draw(cell, seed, gates, initial);
                    let oracle = inputs.run(exact, DType::F64, |leaves| leaves.plain(cell));
                    let plain = inputs.run(device, DType::F32, |leaves| leaves.plain(cell));
                    let all = |leaves: Leaves| leaves.states(cell, &Steps::all()).all();
                    let ours = inputs.run(device, DType::F32, all);
                    for (index, sums) in sums.iter_mut().enumerate() {
                        sums[0] += error(&ours[index], &oracle[index]);
                        sums[1] += error(&plain[index], &oracle[index]);
                        sums[2] += oracle[index].magnitude();
                    }
                }
                for (name, [ours, plain, magnitude]) in names.iter().zip(sums) {
                    let factor = if *name == "states" { 2.0 } else { 3.0 };
                    let what = format!("{cell:?}, gates {gates:?}, states {initial:?}: {name}");
                    let errors = format!("error {ours:e}, of the plain composition {plain:e}");
                    let is_precise = ours <= (factor * plain).max(1e-6 * magnitude);
                    assert!(is_precise, "{what}: {errors}, magnitude {magnitude:e}");
                }
            }
        }
    });
}
