//! Inputs, outputs and gradients of the kernels of recurrent layers.

use super::parts::of_states;
use crate::checks::check_len;
use crate::threads::{TASK_ELEMENTS, for_each_with};
use crate::tiles::RECURRENT_ROWS;
use crate::{Packing, Real};

pub(super) const OPERATION: &str = "recurrent layer";

/// A recurrent layer in one direction, whose cell has `G` gates and a state of `N` vectors.
///
/// The input projection of the gates, `W_i x + b_i`, is computed beforehand, for all steps at once.
///
/// # Shapes
/// - hidden_weight `[hidden_size, G * hidden_size]`, hidden_bias `[G * hidden_size]`
/// - initial `[N, batch, hidden_size]`
///
/// All are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentInputs<'a, E, const G: usize, const N: usize> {
    /// The weight of the hidden projection of the gates.
    pub hidden_weight: &'a [E],
    /// The bias of the hidden projection.
    pub hidden_bias: &'a [E],
    /// The state before the first step.
    pub initial: &'a [E],
    /// The number of steps of each example, `[batch]`; later steps do not change the state. All steps if absent.
    pub lens: Option<&'a [usize]>,
    /// Whether the last step comes first. The padding of an example then comes before its steps.
    pub is_reversed: bool,
    /// The packed weight for the forward and the backward pass, if other calls have the same weight.
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
/// PyTorch equivalent: `nn.GRU`.
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
/// PyTorch equivalent: `nn.LSTM`.
pub type LstmInputs<'a, E> = RecurrentInputs<'a, E, 4, 2>;

/// The outputs of the forward pass, except the values that replaced the gates, and the gradients from which the
/// backward pass starts: one for each of the `N` states, or empty if nothing depends on it.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOutputs<'a, E, const N: usize> {
    /// `[N, batch, steps, hidden_size]`
    pub states: &'a [E],
    /// `[batch, steps, SAVED * hidden_size]`
    pub saved: &'a [E],
    /// Gradients of the states after each step, `[batch, steps, hidden_size]`.
    pub gradient: [&'a [E]; N],
    /// Gradients of the states after the step that is computed last, `[batch, hidden_size]`; added to `gradient`.
    pub last_gradient: [&'a [E]; N],
}

/// The requested gradients, to write to; contiguous.
///
/// The gradient of the weight is a product of all steps, with the outputs before them
/// ([`outputs_before`](RecurrentInputs::outputs_before)): `before^T hidden`. The gradient of the bias is the column
/// sums of `hidden`.
#[derive(Debug)]
pub struct RecurrentGradients<'a, E> {
    /// The gates as replaced by the forward pass, `[batch, steps, G * hidden_size]`. They are replaced by the gradient
    /// of the input projection, which is 0 after the last step of an example.
    pub gates: &'a mut [E],
    /// Gradients of the hidden projection of the gates, in the shape of `gates`; 0 after the last step of an example.
    /// For an LSTM they equal those of `gates`.
    pub hidden: Option<&'a mut [E]>,
    /// The gradient of the state before the first step.
    pub initial: Option<&'a mut [E]>,
}

impl<E: Real, const G: usize, const N: usize> RecurrentInputs<'_, E, G, N> {
    /// # Panics
    /// If the shapes do not fit together.
    pub(super) fn check(&self) {
        let [batch, steps, size] = self.sizes;
        let (weight, initial) = (self.hidden_weight.len(), self.initial.len());
        check_len(OPERATION, "hidden weight", [size, G * size], weight);
        check_len(OPERATION, "hidden bias", [G * size], self.hidden_bias.len());
        check_len(OPERATION, "initial state", [N, batch, size], initial);
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
        let shape = [batch, steps, size];
        check_len(OPERATION, "outputs before", shape, before.len());
        if before.is_empty() {
            return;
        }
        let inner = (steps - 1) * size;
        let outputs = before
            .chunks_exact_mut(steps * size)
            .zip(states.chunks_exact(steps * size))
            .zip(self.initial.chunks_exact(size));
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
    pub(super) fn tasks(&self) -> impl Iterator<Item = ([&[E]; N], Option<&[usize]>)> {
        let [batch, _, size] = self.sizes;
        let examples = self.examples_of_task();
        (0..batch).step_by(examples).map(move |first| {
            let end = batch.min(first + examples);
            let initial = of_states(self.initial, batch * size, first * size..end * size);
            (initial, self.lens.map(|lens| &lens[first..end]))
        })
    }

    /// The number of examples in a task.
    pub(super) fn examples_of_task(&self) -> usize {
        let [batch, _, _] = self.sizes;
        // Examples do not interact, so the division changes no bit.
        let of_thread = batch.div_ceil(rayon::current_num_threads());
        let [least, most] = RECURRENT_ROWS;
        let tasks = batch.div_ceil(of_thread.clamp(least, most)).max(1);
        batch.div_ceil(tasks).max(1)
    }
}
