//! A GRU or LSTM layer over a whole sequence, an example and a step at a time.

use burn_fused_layers::recurrent::{CellKind, Steps};

/// The layer, with the gates of a step concatenated: r, z, n of a GRU, i, f, g, o of an LSTM.
pub(crate) struct Layer<'a> {
    pub(crate) cell: CellKind,
    pub(crate) steps: &'a Steps,
    /// The number of examples, of steps, and of hidden units.
    pub(crate) sizes: [usize; 3],
    /// The input projection of the gates, `[batch, steps, gates * size]`.
    pub(crate) gates: &'a [f64],
    /// `[size, gates * size]`
    pub(crate) weight: &'a [f64],
    /// `[gates * size]`
    pub(crate) bias: &'a [f64],
    /// The states before the first step, `[states, batch, size]`.
    pub(crate) initial: &'a [f64],
}

/// The gradients of a layer.
pub(crate) struct LayerGradients {
    pub(crate) gates: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    pub(crate) bias: Vec<f64>,
    pub(crate) initial: Vec<f64>,
}

/// A step of one example, whose state is its output h, and after it the cell c of an LSTM.
struct Step<'a> {
    cell: CellKind,
    size: usize,
    /// The input projection of the gates.
    input: &'a [f64],
    /// The hidden projection of the gates, `W h + b`.
    hidden: &'a [f64],
    state: &'a [f64],
}

/// The gradients of a step.
struct StepGradients {
    input: Vec<f64>,
    hidden: Vec<f64>,
    /// Without what reaches h through `hidden`.
    state: Vec<f64>,
}

impl Layer<'_> {
    /// The outputs after each step, and after them the last states: `[batch, steps + states, size]`.
    pub(crate) fn forward(&self) -> Vec<f64> {
        let [batch, count, size] = self.sizes;
        let states = self.cell.states();
        let mut output = vec![0.0; batch * (count + states) * size];
        for b in 0..batch {
            let rows = &mut output[b * (count + states) * size..][..(count + states) * size];
            let mut state = self.initial_state(b);
            for t in self.order() {
                if self.is_step(b, t) {
                    let hidden = self.hidden_share(&state);
                    state = self.step(b, t, &hidden, &state).forward();
                }
                rows[t * size..(t + 1) * size].copy_from_slice(&state[..size]);
            }
            rows[count * size..].copy_from_slice(&state);
        }
        output
    }

    /// The gradients, from that of what [`forward`](Self::forward) returns.
    pub(crate) fn backward(&self, grad_output: &[f64]) -> LayerGradients {
        let [batch, count, size] = self.sizes;
        let states = self.cell.states();
        let width = self.bias.len();
        let mut gradients = LayerGradients {
            gates: vec![0.0; self.gates.len()],
            weight: vec![0.0; self.weight.len()],
            bias: vec![0.0; width],
            initial: vec![0.0; self.initial.len()],
        };
        for b in 0..batch {
            let grad_rows = &grad_output[b * (count + states) * size..][..(count + states) * size];
            let before = self.states_before(b);
            let mut grad_state = grad_rows[count * size..].to_vec();
            for (t, state) in before.iter().rev() {
                for u in 0..size {
                    grad_state[u] += grad_rows[t * size + u];
                }
                if !self.is_step(b, *t) {
                    continue;
                }
                let hidden = self.hidden_share(state);
                let of_step = self.step(b, *t, &hidden, state).backward(&grad_state);
                let grad_gates = &mut gradients.gates[(b * count + t) * width..][..width];
                grad_gates.copy_from_slice(&of_step.input);
                grad_state = of_step.state;
                for g in 0..width {
                    for k in 0..size {
                        grad_state[k] += of_step.hidden[g] * self.weight[k * width + g];
                        gradients.weight[k * width + g] += of_step.hidden[g] * state[k];
                    }
                    gradients.bias[g] += of_step.hidden[g];
                }
            }
            for s in 0..states {
                for u in 0..size {
                    gradients.initial[(s * batch + b) * size + u] = grad_state[s * size + u];
                }
            }
        }
        gradients
    }

    /// Each step of an example in its order, padding too, with the state before it.
    fn states_before(&self, b: usize) -> Vec<(usize, Vec<f64>)> {
        let mut before = Vec::new();
        let mut state = self.initial_state(b);
        for t in self.order() {
            before.push((t, state.clone()));
            if self.is_step(b, t) {
                let hidden = self.hidden_share(&state);
                state = self.step(b, t, &hidden, &state).forward();
            }
        }
        before
    }

    fn order(&self) -> Vec<usize> {
        let [_, count, _] = self.sizes;
        let mut order: Vec<usize> = (0..count).collect();
        if self.steps.is_reversed {
            order.reverse();
        }
        order
    }

    /// Whether an example has this step; padding leaves its state as it is.
    fn is_step(&self, b: usize, t: usize) -> bool {
        match &self.steps.lens {
            Some(lens) => t < lens[b],
            None => true,
        }
    }

    fn initial_state(&self, b: usize) -> Vec<f64> {
        let [batch, _, size] = self.sizes;
        let mut state = Vec::new();
        for s in 0..self.cell.states() {
            state.extend_from_slice(&self.initial[(s * batch + b) * size..][..size]);
        }
        state
    }

    /// `hidden[g] = sum_k h[k] weight[k, g] + bias[g]`
    fn hidden_share(&self, state: &[f64]) -> Vec<f64> {
        let [_, _, size] = self.sizes;
        let width = self.bias.len();
        let mut hidden = self.bias.to_vec();
        for g in 0..width {
            for k in 0..size {
                hidden[g] += state[k] * self.weight[k * width + g];
            }
        }
        hidden
    }

    fn step<'a>(&'a self, b: usize, t: usize, hidden: &'a [f64], state: &'a [f64]) -> Step<'a> {
        let [_, count, size] = self.sizes;
        let width = self.bias.len();
        Step {
            cell: self.cell,
            size,
            input: &self.gates[(b * count + t) * width..][..width],
            hidden,
            state,
        }
    }
}

impl Step<'_> {
    /// The next state, by the formulas of [`CellKind`].
    fn forward(&self) -> Vec<f64> {
        let Self { size, state, .. } = *self;
        let mut next = vec![0.0; state.len()];
        for u in 0..size {
            match self.cell {
                CellKind::Gru => {
                    let r = sigmoid(self.sum(0, u));
                    let z = sigmoid(self.sum(1, u));
                    let n = (self.input[2 * size + u] + r * self.hidden[2 * size + u]).tanh();
                    next[u] = (1.0 - z) * n + z * state[u];
                }
                CellKind::Lstm => {
                    let i = sigmoid(self.sum(0, u));
                    let f = sigmoid(self.sum(1, u));
                    let g = self.sum(2, u).tanh();
                    let o = sigmoid(self.sum(3, u));
                    let cell = f * state[size + u] + i * g;
                    next[u] = o * cell.tanh();
                    next[size + u] = cell;
                }
            }
        }
        next
    }

    /// The gradients, from that of the next state.
    fn backward(&self, grad_next: &[f64]) -> StepGradients {
        let Self { size, state, .. } = *self;
        let mut gradients = StepGradients {
            input: vec![0.0; self.input.len()],
            hidden: vec![0.0; self.hidden.len()],
            state: vec![0.0; state.len()],
        };
        for u in 0..size {
            match self.cell {
                CellKind::Gru => {
                    let r = sigmoid(self.sum(0, u));
                    let z = sigmoid(self.sum(1, u));
                    let share = self.hidden[2 * size + u];
                    let n = (self.input[2 * size + u] + r * share).tanh();
                    // The gradient of what tanh is taken of.
                    let grad_n = grad_next[u] * (1.0 - z) * (1.0 - n * n);
                    let grad_r = grad_n * share * r * (1.0 - r);
                    let grad_z = grad_next[u] * (state[u] - n) * z * (1.0 - z);
                    gradients.set(u, size, &[grad_r, grad_z, grad_n]);
                    gradients.hidden[2 * size + u] = grad_n * r;
                    gradients.state[u] = grad_next[u] * z;
                }
                CellKind::Lstm => {
                    let i = sigmoid(self.sum(0, u));
                    let f = sigmoid(self.sum(1, u));
                    let g = self.sum(2, u).tanh();
                    let o = sigmoid(self.sum(3, u));
                    let before = state[size + u];
                    let squashed = (f * before + i * g).tanh();
                    let grad_o = grad_next[u] * squashed * o * (1.0 - o);
                    let grad_cell =
                        grad_next[size + u] + grad_next[u] * o * (1.0 - squashed * squashed);
                    let grad_i = grad_cell * g * i * (1.0 - i);
                    let grad_f = grad_cell * before * f * (1.0 - f);
                    let grad_g = grad_cell * i * (1.0 - g * g);
                    gradients.set(u, size, &[grad_i, grad_f, grad_g, grad_o]);
                    gradients.state[size + u] = grad_cell * f;
                }
            }
        }
        gradients
    }

    /// The sum of both projections, of which a gate is the sigmoid or tanh.
    fn sum(&self, gate: usize, u: usize) -> f64 {
        self.input[gate * self.size + u] + self.hidden[gate * self.size + u]
    }
}

impl StepGradients {
    /// The gates of one unit, for both projections.
    fn set(&mut self, u: usize, size: usize, gates: &[f64]) {
        for (gate, gradient) in gates.iter().enumerate() {
            self.input[gate * size + u] = *gradient;
            self.hidden[gate * size + u] = *gradient;
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
