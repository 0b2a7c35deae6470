//! States of a recurrent layer that are read one by one: the same gradients as through views of all of them.

use attention_core::ops::{self, States};
use attention_core::recurrent::{CellKind, Steps};
use attention_tests::{Array, assert_close, device};
use burn::tensor::{DType, Device, Tensor};

const BATCH: usize = 2;
const COUNT: usize = 3;
const SIZE: usize = 4;

/// What a loss depends on.
#[derive(Clone, Copy, Debug)]
struct Reads {
    /// All states at once.
    all: bool,
    /// How often each after all steps.
    of_steps: usize,
    /// How often each after the last step.
    last: usize,
}

impl Reads {
    const CASES: [Self; 6] = [
        Self::new(false, 1, 0),
        Self::new(false, 0, 1),
        Self::new(false, 2, 3),
        Self::new(true, 0, 0),
        Self::new(true, 1, 0),
        Self::new(true, 1, 2),
    ];

    const fn new(all: bool, of_steps: usize, last: usize) -> Self {
        Self {
            all,
            of_steps,
            last,
        }
    }
}

fn tensor<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    Array::draw(seed, &shape).tensor(device, DType::F32)
}

/// A loss that reads states by `of_steps` and `last`, and its gradients.
fn run(
    cell: CellKind,
    steps: &Steps,
    reads: Reads,
    device: &Device,
    of_steps: impl Fn(&States, usize) -> Tensor<3>,
    last: impl Fn(&States, usize) -> Tensor<2>,
) -> Vec<Array> {
    let width = cell.gates() * SIZE;
    let gates = tensor(1, [BATCH, COUNT, width], device).require_grad();
    let weight = tensor(2, [SIZE, width], device).require_grad();
    let bias = tensor(3, [width], device).require_grad();
    let initial = tensor(4, [cell.states(), BATCH, SIZE], device).require_grad();
    let hidden = (weight.clone(), bias.clone());
    let (starts, steps) = (initial.clone(), steps.clone());
    let states = ops::recurrent(cell, gates.clone(), hidden, None, starts, steps);
    let mut losses = Vec::new();
    if reads.all {
        let weights = tensor(5, [cell.states(), BATCH, COUNT, SIZE], device);
        losses.push((states.clone().all() * weights).sum());
    }
    for n in 0..cell.states() {
        for time in 0..reads.of_steps {
            let weights = tensor(6 + time as u64, [BATCH, COUNT, SIZE], device);
            losses.push((of_steps(&states, n) * weights).sum());
        }
        for time in 0..reads.last {
            let weights = tensor(8 + time as u64, [BATCH, SIZE], device);
            losses.push((last(&states, n) * weights).sum());
        }
    }
    let loss = Tensor::cat(losses, 0).sum();
    let gradients = loss.clone().backward();
    vec![
        Array::read(loss),
        Array::read(gates.grad(&gradients).unwrap()),
        Array::read(weight.grad(&gradients).unwrap()),
        Array::read(bias.grad(&gradients).unwrap()),
        Array::read(initial.grad(&gradients).unwrap()),
    ]
}

#[test]
fn gradients_are_those_of_views() {
    device::each_training(|device| {
        for cell in [CellKind::Gru, CellKind::Lstm] {
            for steps in [Steps::all(), Steps::of_lens([1, 3]).reversed()] {
                let last_step = if steps.is_reversed { 0 } else { COUNT - 1 };
                let of_steps = |states: &States, n: usize| -> Tensor<3> {
                    states.clone().all().narrow(0, n, 1).squeeze_dim(0)
                };
                let last = |states: &States, n: usize| -> Tensor<2> {
                    of_steps(states, n).narrow(1, last_step, 1).squeeze_dim(1)
                };
                for reads in Reads::CASES {
                    let expected = run(cell, &steps, reads, device, of_steps, last);
                    let got = run(cell, &steps, reads, device, States::of_steps, States::last);
                    for (got, expected) in got.iter().zip(&expected) {
                        assert!(expected.magnitude() > 0.0);
                        let what = format!("{cell:?} {steps:?} {reads:?}");
                        assert_close(&what, got, expected, 2e-5);
                    }
                }
            }
        }
    });
}
