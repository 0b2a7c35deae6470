//! States of a recurrent layer that are read one by one: the same gradients as through views of all of them.

use attention_tests::{Array, assert_all_close, device, refuses};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, States, Steps};

use crate::leaves::Leaves;

/// The states that a loss depends on.
#[derive(Clone, Copy, Debug)]
struct Reads {
    /// All states at once.
    all: bool,
    /// How often each after each step.
    of_steps: usize,
    /// How often each after the last step alone.
    last: usize,
    /// Whether only the state of the highest index, an LSTM's cell, is read one by one.
    one: bool,
}

impl Reads {
    const CASES: [Self; 8] = [
        Self::new(false, 1, 0, false),
        Self::new(false, 0, 1, false),
        Self::new(false, 2, 3, false),
        Self::new(true, 0, 0, false),
        Self::new(true, 1, 0, false),
        Self::new(true, 1, 2, true),
        Self::new(false, 1, 0, true),
        Self::new(false, 0, 1, true),
    ];

    const fn new(all: bool, of_steps: usize, last: usize, one: bool) -> Self {
        Self {
            all,
            of_steps,
            last,
            one,
        }
    }
}

/// How states are read.
type OfSteps = fn(&States, usize) -> Tensor<3>;
type Last = fn(&States, usize, &Steps) -> Tensor<2>;

fn of_steps_by_view(states: &States, n: usize) -> Tensor<3> {
    states.clone().all().narrow(0, n, 1).squeeze_dim(0)
}

fn last_by_view(states: &States, n: usize, steps: &Steps) -> Tensor<2> {
    let of_steps = of_steps_by_view(states, n);
    let [_, count, _] = of_steps.dims();
    let last = if steps.is_reversed { 0 } else { count - 1 };
    of_steps.narrow(1, last, 1).squeeze_dim(1)
}

fn tensor<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    Array::draw(seed, &shape).tensor(device, DType::F32)
}

/// What a layer computes its states of, and these.
struct Layer {
    leaves: Leaves,
    states: States,
}

impl Layer {
    fn run(cell: CellKind, sizes: [usize; 3], steps: &Steps, device: &Device) -> Self {
        let leaves = Leaves::draw(cell, sizes, device);
        let states = leaves.states(cell, steps);
        Self { leaves, states }
    }

    /// A loss that reads the states, and its gradients.
    fn gradients(self, reads: Reads, steps: &Steps, of_steps: OfSteps, last: Last) -> Vec<Array> {
        let all = self.states.clone().all();
        let ([number, batch, count, size], device) = (all.dims(), all.device());
        let mut losses = Vec::new();
        if reads.all {
            losses.push((all.clone() * tensor(5, all.dims(), &device)).sum());
        }
        for n in if reads.one { number - 1 } else { 0 }..number {
            for time in 0..reads.of_steps {
                let weights = tensor(6 + time as u64, [batch, count, size], &device);
                losses.push((of_steps(&self.states, n) * weights).sum());
            }
            for time in 0..reads.last {
                let weights = tensor(8 + time as u64, [batch, size], &device);
                losses.push((last(&self.states, n, steps) * weights).sum());
            }
        }
        // On the tape, and not in the loss.
        let _unused = of_steps(&self.states, 0).exp();
        let loss = Tensor::cat(losses, 0).sum();
        let gradients = loss.clone().backward();
        let mut results = vec![Array::read(loss)];
        results.extend(self.leaves.gradients(&gradients));
        results
    }
}

#[test]
fn gradients_are_those_of_views() {
    device::each_training(|device| {
        for cell in [CellKind::Gru, CellKind::Lstm] {
            for (sizes, steps) in [
                ([2, 3, 4], Steps::all()),
                ([2, 3, 4], Steps::of_lens([1, 3]).reversed()),
                ([2, 1, 4], Steps::all()),
                ([1, 1, 1], Steps::all()),
            ] {
                for reads in Reads::CASES {
                    let layer = || Layer::run(cell, sizes, &steps, device);
                    let expected = layer().gradients(reads, &steps, of_steps_by_view, last_by_view);
                    let last: Last = |states, n, _| states.last(n);
                    let got = layer().gradients(reads, &steps, States::of_steps, last);
                    assert!(expected.iter().all(|array| array.magnitude() > 0.0));
                    let what = format!("{cell:?} {sizes:?} {steps:?} {reads:?}");
                    assert_all_close(what, &got, &expected, 2e-5);
                }
            }
        }
    });
}

/// As through any tensor of Burn's: its graph is for one pass. What readers deposit relies on it.
#[test]
fn a_second_pass_is_refused() {
    device::each_training(|device| {
        let Layer { states, .. } = Layer::run(CellKind::Lstm, [2, 3, 4], &Steps::all(), device);
        let (first, second) = (states.last(1).sum(), states.of_steps(0).sum());
        first.backward();
        refuses("already been consumed", || second.backward());
    });
}

#[test]
fn what_is_not_there_is_refused() {
    device::each_training(|device| {
        let layer = |count| Layer::run(CellKind::Gru, [2, count, 4], &Steps::all(), device);
        let states = layer(3).states;
        refuses("expected an index below 1, got 1", || states.of_steps(1));
        let states = layer(0).states;
        assert_eq!(states.of_steps(0).dims(), [2, 0, 4]);
        refuses("expected of some steps, got none", || states.last(0));
    });
}
