//! Recurrent layers over whole sequences.
//!
//! The examples of a batch share nothing but the weights, so that a task takes some of them through all steps without
//! waiting for the others. The weights are packed once for all steps; a step is their product with the previous
//! outputs, and the cell on what comes out. The gradients of the weights are one product at the end, over all steps.
//!
//! In names, `gates` are the input's share of the gates, `W_i x + b_i`, and `hidden` the share of the previous output,
//! `W_h h + b_h`.

mod activation;
mod backward;
mod cell;
mod forward;
mod gates;
mod layer;
mod parts;
mod vectors;

use std::marker::PhantomData;

use crate::checks::check_len;
use crate::product::Aligned;
use crate::slices::equal_parts;
use crate::threads::{for_each, for_each_with};
use crate::tiles::{RECURRENT_ROWS, TASK_ELEMENTS};
use crate::{Level, Packing, Real};
use backward::Backward;
use cell::{Cell, VALUES};
use forward::Forward;

pub(crate) use cell::{Gru, Lstm};
pub(crate) use gates::Gates;
use parts::{of_states, part_of_each, parts_of_states};

const OPERATION: &str = "recurrent layer";

/// A recurrent layer in one direction, whose cell has `G` gates and a state of `N` vectors.
///
/// The input's share of the gates, `W_i x + b_i`, is computed before, for all steps at once.
///
/// # Shapes
/// - hidden_weight `[hidden_size, G * hidden_size]`, hidden_bias `[G * hidden_size]`
/// - initial `[N, batch, hidden_size]`
///
/// All are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentInputs<'a, E, const G: usize, const N: usize> {
    /// What the previous output is multiplied with for its share of the gates.
    pub hidden_weight: &'a [E],
    /// Added to that share.
    pub hidden_bias: &'a [E],
    /// The state before the first step.
    pub initial: &'a [E],
    /// The number of steps of each example, `[batch]`; the steps after them change no state. All steps if absent.
    pub lens: Option<&'a [usize]>,
    /// Whether the last step comes first. The steps after those of an example then come before them.
    pub is_reversed: bool,
    /// The weight packed for the forward and the backward pass, where other calls have the same.
    pub packings: Option<&'a [Packing<E>; 2]>,
    /// `batch`, `steps`, `hidden_size`
    pub sizes: [usize; 3],
}

/// A gated recurrent unit (Cho et al. 2014), with the gates r, z, n in this order, and the state h.
///
/// ```text
/// r = sigmoid(i_r + W_hr h + b_hr)
/// z = sigmoid(i_z + W_hz h + b_hz)
/// n = tanh(i_n + r * (W_hn h + b_hn))
/// h' = (1 - z) * n + z * h
/// ```
///
/// PyTorch: `nn.GRU`.
pub type GruInputs<'a, E> = RecurrentInputs<'a, E, 3, 1>;

/// Long short-term memory (Hochreiter and Schmidhuber 1997; Gers et al. 2000), with the gates i, f, g, o in this
/// order, and the states h and c.
///
/// ```text
/// i = sigmoid(i_i + W_hi h + b_hi)
/// f = sigmoid(i_f + W_hf h + b_hf)
/// g = tanh(i_g + W_hg h + b_hg)
/// o = sigmoid(i_o + W_ho h + b_ho)
/// c' = f * c + i * g
/// h' = o * tanh(c')
/// ```
///
/// PyTorch: `nn.LSTM`.
pub type LstmInputs<'a, E> = RecurrentInputs<'a, E, 4, 2>;

/// What the forward pass wrote, but for what it wrote in the place of the gates, and the gradients that the backward
/// pass starts from: of each of the `N` states, or empty where nothing depends on it.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOutputs<'a, E, const N: usize> {
    /// `[N, batch, steps, hidden_size]`
    pub states: &'a [E],
    /// `[batch, steps, SAVED * hidden_size]`
    pub saved: &'a [E],
    /// Of the states after each step, `[batch, steps, hidden_size]`.
    pub gradient: [&'a [E]; N],
    /// Of the states after the step that is computed last, `[batch, hidden_size]`; added to what `gradient` has of it.
    pub last_gradient: [&'a [E]; N],
}

/// Where the backward pass writes gradients; contiguous.
///
/// That of the weight is a product of all steps, with the outputs before them
/// ([`outputs_before`](RecurrentInputs::outputs_before)): `before^T hidden`. That of the bias are the sums of the
/// columns of `hidden`.
#[derive(Debug)]
pub struct RecurrentGradients<'a, E> {
    /// What the forward pass wrote in the place of the gates, `[batch, steps, G * hidden_size]`. In its place comes the
    /// gradient of the input's share of the gates; 0 after the steps of an example.
    pub gates: &'a mut [E],
    /// Of the previous output's share of the gates, in the shape of `gates`; 0 after the steps of an example. For an
    /// LSTM it is `gates` again, and may be empty.
    pub hidden: &'a mut [E],
    /// Of the state before the first step.
    pub initial: &'a mut [E],
}

macro_rules! layer {
    ($gates:literal, $states:literal, $forward:ident, $backward:ident) => {
        impl<E: Real> RecurrentInputs<'_, E, $gates, $states> {
            /// The values for each step and unit that the backward pass needs beside the gates: a GRU's hidden share of
            /// n.
            pub const SAVED: usize = VALUES - $gates;

            /// Writes the states after each step, from the input's share of the gates; after the steps of an example,
            /// the state stays what it is.
            ///
            /// Steps after those of an example are not read. The number of threads changes no bit.
            ///
            /// # Shapes
            /// - gates `[batch, steps, G * hidden_size]`
            /// - states `[N, batch, steps, hidden_size]`
            ///
            /// # Panics
            /// If the shapes do not fit together.
            pub fn forward(&self, level: Level, gates: &[E], states: &mut [E]) {
                E::$forward(self, level, Gates::Read(gates), states);
            }

            /// As [`forward`](Self::forward), with what the backward pass needs: the gates in the place of the input's
            /// share of them, and `saved`. What both have of the steps after those of an example stays what it is, and
            /// is not read.
            ///
            /// # Shapes
            /// - gates `[batch, steps, G * hidden_size]`
            /// - saved `[batch, steps, SAVED * hidden_size]`
            /// - states `[N, batch, steps, hidden_size]`
            ///
            /// # Panics
            /// If the shapes do not fit together.
            pub fn forward_saving(
                &self,
                level: Level,
                gates: &mut [E],
                saved: &mut [E],
                states: &mut [E],
            ) {
                E::$forward(self, level, Gates::Replaced { gates, saved }, states);
            }

            /// Writes the gradients, from those of the states; `outputs` and the gates have what
            /// [`forward_saving`](Self::forward_saving) wrote for the same inputs. The number of threads changes no
            /// bit, where the weights are finite.
            ///
            /// # Panics
            /// If the shapes do not fit together.
            pub fn backward(
                &self,
                level: Level,
                outputs: &RecurrentOutputs<E, $states>,
                gradients: RecurrentGradients<E>,
            ) {
                E::$backward(self, level, outputs, gradients);
            }
        }
    };
}

layer!(3, 1, gru_forward, gru_backward);
layer!(4, 2, lstm_forward, lstm_backward);

impl<E: Real, const G: usize, const N: usize> RecurrentInputs<'_, E, G, N> {
    /// # Panics
    /// If the shapes do not fit together.
    fn check(&self) {
        let [batch, steps, size] = self.sizes;
        check_len(
            OPERATION,
            "hidden weight",
            [size, G * size],
            self.hidden_weight.len(),
        );
        check_len(OPERATION, "hidden bias", [G * size], self.hidden_bias.len());
        check_len(
            OPERATION,
            "initial state",
            [N, batch, size],
            self.initial.len(),
        );
        if let Some(lens) = self.lens {
            check_len(OPERATION, "lens", [batch], lens.len());
            let most = lens.iter().copied().max().unwrap_or(0);
            assert!(
                most <= steps,
                "{OPERATION}: lens expected at most {steps} steps, got {most}"
            );
        }
    }

    /// Writes the output before each step, `[batch, steps, hidden_size]`, from the states that the forward pass wrote.
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn outputs_before(&self, states: &[E], before: &mut [E]) {
        self.check();
        let [batch, steps, size] = self.sizes;
        check_len(OPERATION, "states", [N, batch, steps, size], states.len());
        check_len(
            OPERATION,
            "outputs before",
            [batch, steps, size],
            before.len(),
        );
        if before.is_empty() {
            return;
        }
        let inner = (steps - 1) * size;
        let outputs = before.chunks_exact_mut(steps * size);
        let outputs = outputs.zip(states.chunks_exact(steps * size));
        let outputs = outputs.zip(self.initial.chunks_exact(size));
        let least = TASK_ELEMENTS.div_ceil(steps * size);
        for_each_with(
            outputs,
            least,
            || (),
            |(), ((before, after), initial)| {
                if self.is_reversed {
                    before[..inner].copy_from_slice(&after[size..]);
                    before[inner..].copy_from_slice(initial);
                } else {
                    before[..size].copy_from_slice(initial);
                    before[size..].copy_from_slice(&after[..inner]);
                }
            },
        );
    }

    /// The initial states and the lengths of the examples of each task.
    fn tasks(&self) -> impl Iterator<Item = ([&[E]; N], Option<&[usize]>)> {
        let [batch, _, size] = self.sizes;
        let examples = self.examples_of_task();
        (0..batch).step_by(examples).map(move |first| {
            let end = batch.min(first + examples);
            let initial = of_states(self.initial, batch * size, first * size..end * size);
            (initial, self.lens.map(|lens| &lens[first..end]))
        })
    }

    fn examples_of_task(&self) -> usize {
        let [batch, _, _] = self.sizes;
        // Examples do not meet, so that this changes no bit.
        let of_thread = batch.div_ceil(rayon::current_num_threads());
        let [least, most] = RECURRENT_ROWS;
        let tasks = batch.div_ceil(of_thread.clamp(least, most)).max(1);
        batch.div_ceil(tasks).max(1)
    }
}

pub(crate) fn forward<E: Real, C: Cell<G, N>, const G: usize, const N: usize>(
    inputs: &RecurrentInputs<E, G, N>,
    level: Level,
    gates: Gates<E>,
    states: &mut [E],
) {
    inputs.check();
    let [batch, steps, size] = inputs.sizes;
    check_len(OPERATION, "states", [N, batch, steps, size], states.len());
    let shape = [batch, steps, G * size];
    check_len(OPERATION, "gates", shape, gates.elements().len());
    if let Gates::Replaced { saved, .. } = &gates {
        let shape = [batch, steps, (VALUES - G) * size];
        check_len(OPERATION, "saved values", shape, saved.len());
    }
    if states.is_empty() {
        return;
    }
    let mut buffers = std::array::from_fn(|_| Aligned::default());
    let layer = inputs.layer(level, false, &mut buffers);
    let len = inputs.examples_of_task() * steps * size;
    let tasks = inputs.tasks().zip(parts_of_states(states, len));
    let tasks = tasks.zip(gates.parts(len, [G, VALUES - G]));
    let tasks: Vec<_> = tasks
        .map(|(((initial, lens), states), gates)| Forward {
            layer: &layer,
            gates,
            lens,
            initial,
            states,
            cell: PhantomData::<C>,
        })
        .collect();
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
}

pub(crate) fn backward<E: Real, C: Cell<G, N>, const G: usize, const N: usize>(
    inputs: &RecurrentInputs<E, G, N>,
    level: Level,
    outputs: &RecurrentOutputs<E, N>,
    gradients: RecurrentGradients<E>,
) {
    inputs.check();
    let [batch, steps, size] = inputs.sizes;
    let RecurrentOutputs {
        states,
        saved,
        gradient,
        last_gradient,
    } = *outputs;
    check_len(OPERATION, "states", [N, batch, steps, size], states.len());
    let given = |gradients: [&'_ [E]; N]| {
        let lens = gradients.map(<[E]>::len);
        lens.into_iter().filter(|&len| len > 0)
    };
    for len in given(gradient) {
        check_len(OPERATION, "gradient of a state", [batch, steps, size], len);
    }
    for len in given(last_gradient) {
        check_len(OPERATION, "gradient of a last state", [batch, size], len);
    }
    check_len(
        OPERATION,
        "saved values",
        [batch, steps, (VALUES - G) * size],
        saved.len(),
    );
    let RecurrentGradients {
        gates,
        hidden,
        initial,
    } = gradients;
    let is_written = !(C::IS_SUM && hidden.is_empty());
    let written = is_written.then_some(("hidden share", &*hidden));
    for (name, shares) in [("gates", &*gates)].into_iter().chain(written) {
        let name = format!("gradient of the {name}");
        check_len(OPERATION, &name, [batch, steps, G * size], shares.len());
    }
    check_len(
        OPERATION,
        "gradient of the initial state",
        [N, batch, size],
        initial.len(),
    );
    if states.is_empty() {
        // Without a step the last state is the first.
        initial.fill(E::ZERO);
        for (initial, last) in equal_parts(initial, N).into_iter().zip(last_gradient) {
            initial[..last.len()].copy_from_slice(last);
        }
        return;
    }
    let mut buffers = std::array::from_fn(|_| Aligned::default());
    let layer = inputs.layer(level, true, &mut buffers);
    let rows = batch * steps;
    let examples = inputs.examples_of_task();
    let len = examples * steps * size;
    let mut of_gates = gates.chunks_mut(G * len);
    let mut of_hidden = hidden.chunks_mut(G * len);
    let tasks = inputs
        .tasks()
        .zip(parts_of_states(initial, examples * size));
    let tasks: Vec<_> = tasks
        .enumerate()
        .map(|(task, ((initial, lens), initial_gradient))| {
            let first = task * len;
            let part = first..(rows * size).min(first + len);
            let of_examples = part.start / steps..part.end / steps;
            Backward {
                layer: &layer,
                lens,
                initial,
                states: of_states(states, rows * size, part.clone()),
                saved: &saved[(VALUES - G) * part.start..(VALUES - G) * part.end],
                gradient: part_of_each(&gradient, &part),
                last_gradient: part_of_each(&last_gradient, &of_examples),
                gates: of_gates.next().unwrap_or_default(),
                hidden: of_hidden.next().unwrap_or_default(),
                initial_gradient,
                cell: PhantomData::<C>,
            }
        })
        .collect();
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
}
