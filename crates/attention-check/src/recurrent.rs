//! Recurrent layers.

use attention_oracle::{Cell, Recurrent};
use burn::tensor::Tensor;
use burn_fused_layers::recurrent::{CellKind, Steps, recurrent};

use crate::case::Sizes;
use crate::check::{Check, Input, Outcome, draw};

const BATCH: usize = 3;
const STEPS: usize = 7;

/// The checks, with as many hidden units as queries have elements.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let cells = [
        ("recurrent layer, GRU", CellKind::Gru),
        ("recurrent layer, LSTM", CellKind::Lstm),
    ];
    let check = |case| cells.map(|cell| check(cell, case, sizes.size));
    Case::ALL.into_iter().flat_map(check).collect()
}

/// The steps of each example, and what the gates after its last step hold.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    lens: Option<[usize; BATCH]>,
    is_reversed: bool,
    /// Whether the gates after the last step of an example are NaN.
    poisoned: bool,
}

impl Case {
    const ALL: [Self; 4] = {
        let all = Self {
            name: "all steps",
            lens: None,
            is_reversed: false,
            poisoned: false,
        };
        let lens = Some([STEPS, 4, 0]);
        [
            all,
            Self {
                name: "reversed",
                is_reversed: true,
                ..all
            },
            Self {
                name: "padding, reversed",
                lens,
                is_reversed: true,
                ..all
            },
            Self {
                name: "NaN in the padding",
                lens,
                poisoned: true,
                ..all
            },
        ]
    };

    fn steps(&self) -> Steps {
        Steps {
            lens: self.lens.map(Vec::from),
            is_reversed: self.is_reversed,
        }
    }

    /// The input projection of the gates, `[batch, steps, width]`.
    fn gates(&self, width: usize) -> Input {
        let mut gates = Input::drawn(20, [1, BATCH, STEPS, width], 1.0);
        if let (true, Some(lens)) = (self.poisoned, self.lens) {
            for (index, gates) in gates.elements.chunks_exact_mut(width).enumerate() {
                if index % STEPS >= lens[index / STEPS] {
                    gates.fill(f64::NAN);
                }
            }
        }
        gates
    }
}

/// A layer whose output is read as users do: h after each step, and the final value of every state.
fn check((name, cell): (&'static str, CellKind), case: Case, size: usize) -> Check {
    let (width, states) = (cell.gates() * size, cell.states());
    Check::new(
        [name, case.name],
        [
            case.gates(width),
            Input::drawn(21, [1, 1, size, width], 0.3),
            Input::drawn(22, [1, 1, 1, width], 0.3),
            Input::drawn(23, [1, states, BATCH, size], 0.5),
        ],
        draw(24, [1, BATCH, STEPS + states, size], 1.0),
        move |[gates, weight, bias, initial], given| {
            let lens = case.lens;
            let layer = Recurrent {
                cell: match cell {
                    CellKind::Gru => Cell::Gru,
                    CellKind::Lstm => Cell::Lstm,
                },
                sizes: [BATCH, STEPS, size],
                lens: lens.as_ref().map(|lens| &lens[..]),
                is_reversed: case.is_reversed,
                gates,
                weight,
                bias,
                initial,
            };
            let read = |at: usize| given.grad_output[at];
            let mut grad_states = vec![0.0; states * BATCH * STEPS * size];
            each_read(case, states, size, |state, output| {
                grad_states[state] += read(output)
            });
            let of = layer.backward(&grad_states);
            let of_layer = layer.forward();
            let mut outputs = vec![0.0; given.grad_output.len()];
            each_read(case, states, size, |state, output| {
                outputs[output] = of_layer[state]
            });
            Outcome::new(outputs, [of.gates, of.weight, of.bias, of.initial])
        },
        move |[gates, weight, bias, initial]| {
            let gates = gates.reshape([BATCH, STEPS, width]);
            let hidden = (weight.reshape([size, width]), bias.reshape([width]));
            let initial = initial.reshape([states, BATCH, size]);
            let read = recurrent(cell, gates, hidden, None, initial, case.steps());
            let last = (0..states).map(|index| read.last(index).unsqueeze_dim(1));
            let parts: Vec<Tensor<3>> = [read.of_steps(0)].into_iter().chain(last).collect();
            Tensor::cat(parts, 1).unsqueeze::<4>()
        },
    )
}

/// The states that a user reads: an index in `[states, batch, steps, size]`, and one in `[batch, steps + states,
/// size]`.
fn each_read(case: Case, states: usize, size: usize, mut read: impl FnMut(usize, usize)) {
    let last = if case.is_reversed { 0 } else { STEPS - 1 };
    for b in 0..BATCH {
        for row in 0..STEPS + states {
            let [state, step] = match row.checked_sub(STEPS) {
                None => [0, row],
                Some(state) => [state, last],
            };
            for u in 0..size {
                let from = ((state * BATCH + b) * STEPS + step) * size + u;
                read(from, (b * (STEPS + states) + row) * size + u);
            }
        }
    }
}
