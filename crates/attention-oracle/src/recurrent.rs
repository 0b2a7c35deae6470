//! A GRU or LSTM layer over a whole sequence, an example and a step at a time.

use crate::Real;
use crate::real::sigmoid;

/// The cell of a layer, with its gates and states in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Gates r, z, n; state h. Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for
    /// Statistical Machine Translation", with the reset after the product.
    Gru,
    /// Gates i, f, g, o; states h and c. Hochreiter and Schmidhuber 1997, "Long Short-Term Memory".
    Lstm,
}

impl Cell {
    /// The number of gates.
    pub fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// The number of states.
    pub fn states(self) -> usize {
        match self {
            Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// The inputs of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Recurrent<'a, E> {
    /// The cell.
    pub cell: Cell,
    /// The number of examples, of steps, and of hidden units.
    pub sizes: [usize; 3],
    /// The number of steps of each example; `None` for all. Later steps do not change a state.
    pub lens: Option<&'a [usize]>,
    /// Whether the last step comes first.
    pub is_reversed: bool,
    /// The input projection of the gates, `[batch, steps, gates * size]`.
    pub gates: &'a [E],
    /// `[size, gates * size]`
    pub weight: &'a [E],
    /// `[gates * size]`
    pub bias: &'a [E],
    /// The states before the first step, `[states, batch, size]`.
    pub initial: &'a [E],
}

/// The gradients of a layer, each in the shape of its input.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct RecurrentGradients<E> {
    pub gates: Vec<E>,
    pub weight: Vec<E>,
    pub bias: Vec<E>,
    pub initial: Vec<E>,
}

/// One step of a unit: the two projections of its gates, and its states before and after.
struct Unit<E> {
    inputs: Vec<E>,
    hidden: Vec<E>,
    before: Vec<E>,
    after: Vec<E>,
}

/// The units of a step; `None` if the example has no such step.
type Step<E> = Option<Vec<Unit<E>>>;

impl<E: Real> Recurrent<'_, E> {
    /// The states after each step, `[states, batch, steps, size]`.
    pub fn forward(&self) -> Vec<E> {
        let [batch, steps, size] = self.sizes;
        let mut states = vec![E::ZERO; self.cell.states() * batch * steps * size];
        for b in 0..batch {
            self.run(b, &mut states);
        }
        states
    }

    /// The gradients, from the gradient of the states.
    pub fn backward(&self, grad_states: &[E]) -> RecurrentGradients<E> {
        let [batch, steps, size] = self.sizes;
        let (gates, count) = (self.cell.gates(), self.cell.states());
        let mut gradients = RecurrentGradients {
            gates: vec![E::ZERO; self.gates.len()],
            weight: vec![E::ZERO; self.weight.len()],
            bias: vec![E::ZERO; self.bias.len()],
            initial: vec![E::ZERO; self.initial.len()],
        };
        let mut states = vec![E::ZERO; grad_states.len()];
        for b in 0..batch {
            let tape = self.run(b, &mut states);
            let mut grad = vec![vec![E::ZERO; size]; count];
            for (t, units) in tape.iter().rev() {
                for n in 0..count {
                    for u in 0..size {
                        grad[n][u] += grad_states[((n * batch + b) * steps + t) * size + u];
                    }
                }
                let Some(units) = units else { continue };
                let mut grad_before = vec![vec![E::ZERO; size]; count];
                for (u, unit) in units.iter().enumerate() {
                    let above: Vec<E> = grad.iter().map(|grad| grad[u]).collect();
                    let [of_inputs, of_hidden, of_before] = self.cell.backward(unit, &above);
                    for n in 0..count {
                        grad_before[n][u] += of_before[n];
                    }
                    for g in 0..gates {
                        let column = g * size + u;
                        gradients.gates[((b * steps + t) * gates + g) * size + u] = of_inputs[g];
                        gradients.bias[column] += of_hidden[g];
                        for k in 0..size {
                            let weight = k * gates * size + column;
                            grad_before[0][k] += of_hidden[g] * self.weight[weight];
                            gradients.weight[weight] += of_hidden[g] * units[k].before[0];
                        }
                    }
                }
                grad = grad_before;
            }
            for n in 0..count {
                gradients.initial[(n * batch + b) * size..][..size].copy_from_slice(&grad[n]);
            }
        }
        gradients
    }

    /// All steps of an example, in order; writes their states.
    fn run(&self, b: usize, states: &mut [E]) -> Vec<(usize, Step<E>)> {
        let [batch, steps, size] = self.sizes;
        let count = self.cell.states();
        let mut order: Vec<usize> = (0..steps).collect();
        if self.is_reversed {
            order.reverse();
        }
        let initial = |n: usize| self.initial[(n * batch + b) * size..][..size].to_vec();
        let mut state: Vec<Vec<E>> = (0..count).map(initial).collect();
        let mut tape = Vec::new();
        for t in order {
            let is_step = self.lens.is_none_or(|lens| t < lens[b]);
            let units = is_step.then(|| {
                let units = (0..size).map(|u| self.unit(b, t, u, &state));
                units.collect::<Vec<_>>()
            });
            for n in 0..count {
                for u in 0..size {
                    if let Some(units) = &units {
                        state[n][u] = units[u].after[n];
                    }
                    states[((n * batch + b) * steps + t) * size + u] = state[n][u];
                }
            }
            tape.push((t, units));
        }
        tape
    }

    fn unit(&self, b: usize, t: usize, u: usize, state: &[Vec<E>]) -> Unit<E> {
        let [_, steps, size] = self.sizes;
        let gates = self.cell.gates();
        let (mut inputs, mut hidden) = (Vec::new(), Vec::new());
        for g in 0..gates {
            inputs.push(self.gates[((b * steps + t) * gates + g) * size + u]);
            let column = g * size + u;
            let products = (0..size).map(|k| state[0][k] * self.weight[k * gates * size + column]);
            hidden.push(products.sum::<E>() + self.bias[column]);
        }
        let before: Vec<E> = state.iter().map(|state| state[u]).collect();
        let after = self.cell.forward(&inputs, &hidden, &before);
        Unit {
            inputs,
            hidden,
            before,
            after,
        }
    }
}

impl Cell {
    /// The states of a unit after a step.
    fn forward<E: Real>(self, inputs: &[E], hidden: &[E], before: &[E]) -> Vec<E> {
        let gate = |g: usize| sigmoid(inputs[g] + hidden[g]);
        match self {
            Self::Gru => {
                let [r, z] = [gate(0), gate(1)];
                let n = (inputs[2] + r * hidden[2]).tanh();
                vec![(E::ONE - z) * n + z * before[0]]
            }
            Self::Lstm => {
                let [i, f, o] = [gate(0), gate(1), gate(3)];
                let g = (inputs[2] + hidden[2]).tanh();
                let c = f * before[1] + i * g;
                vec![o * c.tanh(), c]
            }
        }
    }

    /// The gradients of both projections, and of the previous states, except through the gates.
    fn backward<E: Real>(self, unit: &Unit<E>, above: &[E]) -> [Vec<E>; 3] {
        let (inputs, hidden) = (&unit.inputs, &unit.hidden);
        let (before, after) = (&unit.before, &unit.after);
        let (one, gate) = (E::ONE, |g: usize| sigmoid(inputs[g] + hidden[g]));
        match self {
            Self::Gru => {
                let [r, z] = [gate(0), gate(1)];
                let n = (inputs[2] + r * hidden[2]).tanh();
                let dn = above[0] * (one - z) * (one - n * n);
                let dz = above[0] * (before[0] - n) * z * (one - z);
                let dr = dn * hidden[2] * r * (one - r);
                [vec![dr, dz, dn], vec![dr, dz, dn * r], vec![above[0] * z]]
            }
            Self::Lstm => {
                let [i, f, o] = [gate(0), gate(1), gate(3)];
                let g = (inputs[2] + hidden[2]).tanh();
                let c = after[1].tanh();
                let dc = above[1] + above[0] * o * (one - c * c);
                let gates = vec![
                    dc * g * i * (one - i),
                    dc * before[1] * f * (one - f),
                    dc * i * (one - g * g),
                    above[0] * c * o * (one - o),
                ];
                [gates.clone(), gates, vec![E::ZERO, dc * f]]
            }
        }
    }
}
