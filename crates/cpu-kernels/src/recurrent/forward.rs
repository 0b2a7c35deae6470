//! The forward pass: some examples through all steps.

use std::marker::PhantomData;

use super::cell::{Cell, VALUES};
use super::gates::Gates;
use super::layer::{Layer, following};
use super::vectors::{load_rows, prefetch_rows, store_rows};
use crate::simd::gemm::Start;
use crate::simd::{Job, Simd, prefetch};
use crate::{Buffer, Real};

/// Some examples through all steps; they share only the weights with the others.
pub(super) struct Forward<'a, E, C, const G: usize, const N: usize> {
    pub layer: &'a Layer<'a, E, G>,
    /// The gates, with `VALUES - G` saved values per unit.
    pub gates: Gates<'a, E>,
    /// The number of steps of each example; all if absent.
    pub lens: Option<&'a [usize]>,
    /// `[examples, hidden_size]` each
    pub initial: [&'a [E]; N],
    /// `[examples, steps, hidden_size]` each
    pub states: [&'a mut [E]; N],
    pub cell: PhantomData<C>,
}

impl<E: Real, C: Cell<G, N>, const G: usize, const N: usize> Job<E> for Forward<'_, E, C, G, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let layer = self.layer;
        let (steps, size, stride) = (layer.steps, layer.hidden_size, layer.stride);
        let examples = self.initial[0].len() / size;
        let mut state = self.initial.map(|initial| layer.padded(initial));
        let mut state = state.each_mut().map(|state| &mut **state);
        let sums = &mut *Buffer::for_overwrite(examples * G * stride);
        let mut states = self.states;
        for step in layer.order() {
            let is_active = |example: usize| self.lens.is_none_or(|lens| step < lens[example]);
            if (0..examples).any(is_active) {
                for (gate, panels) in layer.weights.iter().enumerate() {
                    let (left, out) = (&*state[0], &mut sums[gate * stride..]);
                    let (left, out) = ((left, stride), (out, G * stride));
                    panels.multiply(simd, examples, left, Start::Zero, out);
                }
            }
            for example in 0..examples {
                let row = example * steps + step;
                let padded = example * stride..(example + 1) * stride;
                if is_active(example) {
                    let of_gates = row * G * size..(row + 1) * G * size;
                    let of_saved = row * (VALUES - G) * size..(row + 1) * (VALUES - G) * size;
                    let sums = &sums[example * G * stride..][..G * stride];
                    // Examples are far apart in memory, and each row is read once: it is prefetched a row ahead.
                    let [next, next_step] = following([example, step], examples, layer.after(step));
                    let next = next * steps + next_step;
                    let next_gates = self.gates.elements().as_ptr().wrapping_add(next * G * size);
                    let saved = self.gates.saved();
                    let saved_rows = if saved.is_empty() { 0 } else { VALUES - G };
                    let next_saved = saved.as_ptr().wrapping_add(next * saved_rows * size);
                    for first in (0..size).step_by(S::LANES) {
                        prefetch_rows(next_gates, size, G, first);
                        prefetch_rows(next_saved, size, saved_rows, first);
                        for states in &states {
                            prefetch(states.as_ptr().wrapping_add(next * size + first));
                        }
                        let lanes = first..size.min(first + S::LANES);
                        let whole = first..first + S::LANES;
                        let gates = &self.gates.elements()[of_gates.clone()];
                        let inputs = load_rows(simd, gates, size, &lanes);
                        let mut hidden: [S::V; G] = load_rows(simd, sums, stride, &whole);
                        let bias: [S::V; G] = load_rows(simd, &layer.hidden_bias, stride, &whole);
                        for (hidden, bias) in hidden.iter_mut().zip(bias) {
                            *hidden = simd.add(*hidden, bias);
                        }
                        let at = padded.start + first..padded.start + first + S::LANES;
                        let mut before = [simd.zero(); N];
                        for (before, state) in before.iter_mut().zip(&state) {
                            *before = simd.load(&state[at.clone()]);
                        }
                        let (after, values) = C::forward(simd, inputs, hidden, before);
                        for (state, after) in state.iter_mut().zip(after) {
                            // No weight multiplies the results for the zeros after a row.
                            simd.store(after, &mut state[at.clone()]);
                        }
                        if let Gates::Replaced { gates, saved } = &mut self.gates {
                            let (of_cell, others) = values.split_at(G);
                            store_rows(simd, of_cell, &mut gates[of_gates.clone()], size, &lanes);
                            store_rows(simd, others, &mut saved[of_saved.clone()], size, &lanes);
                        }
                    }
                }
                for (states, state) in states.iter_mut().zip(&state) {
                    states[row * size..][..size].copy_from_slice(&state[padded.clone()][..size]);
                }
            }
        }
    }
}
