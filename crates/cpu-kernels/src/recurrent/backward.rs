//! The backward pass: some examples through all steps, beginning with the last.

use std::marker::PhantomData;

use super::cell::{Cell, VALUES};
use super::layer::{Layer, following};
use super::parts::part_of_each;
use super::vectors::{load_rows_into, load_states, prefetch_rows, store_rows};
use crate::simd::gemm::Start;
use crate::simd::{Job, Simd, prefetch};
use crate::{Buffer, Real};

/// Some examples through all steps, beginning with the last.
pub(super) struct Backward<'a, E, C, const G: usize, const N: usize> {
    pub layer: &'a Layer<'a, E, G>,
    /// The number of steps of each example; all if absent.
    pub lens: Option<&'a [usize]>,
    /// `[examples, hidden_size]` each
    pub initial: [&'a [E]; N],
    /// `[examples, steps, hidden_size]` each
    pub states: [&'a [E]; N],
    /// `[examples, steps, VALUES - G, hidden_size]`
    pub saved: &'a [E],
    /// Gradients of the states, in their shape, or empty.
    pub gradient: [&'a [E]; N],
    /// Gradients of the states after the step that is computed last, `[examples, hidden_size]` each, or empty. They are
    /// added to the `gradient` of that step.
    pub last_gradient: [&'a [E]; N],
    /// The gates, `[examples, steps, G, hidden_size]`; replaced by the gradient of their input projection.
    pub gates: &'a mut [E],
    /// The gradient of the hidden projection of the gates, like `gates`; to write to. Empty if not requested.
    pub hidden: &'a mut [E],
    /// Gradients of the initial states, `[examples, hidden_size]` each, to write to, if requested.
    pub initial_gradient: Option<[&'a mut [E]; N]>,
    pub cell: PhantomData<C>,
}

impl<E: Real, C: Cell<G, N>, const G: usize, const N: usize> Job<E> for Backward<'_, E, C, G, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let layer = self.layer;
        let (steps, size, stride) = (layer.steps, layer.hidden_size, layer.stride);
        let examples = self.initial[0].len() / size;
        // First the gradient of the state after the step, then that of the state before it.
        let mut carried = self.last_gradient.map(|last| match last.is_empty() {
            true => Buffer::zeroed(examples * stride),
            false => {
                let mut carried = layer.padded(last);
                // Avoids -0, which a gradient of -0 would leave: whether a product then adds 0 to it depends on the
                // examples of the task.
                carried.iter_mut().for_each(|last| *last = E::ZERO + *last);
                carried
            }
        });
        let mut carried = carried.each_mut().map(|carried| &mut **carried);
        let sums = &mut *Buffer::zeroed(examples * G * stride);
        for step in layer.order().rev() {
            let is_active = |example: usize| self.lens.is_none_or(|lens| step < lens[example]);
            for example in 0..examples {
                let row = example * steps + step;
                let of_gates = row * G * size..(row + 1) * G * size;
                let of_state = row * size..(row + 1) * size;
                let before: [&[E]; N] = std::array::from_fn(|n| match layer.before(step) {
                    Some(step) => &self.states[n][(example * steps + step) * size..][..size],
                    None => &self.initial[n][example * size..][..size],
                });
                // Examples are far apart in memory, and each row is read once: it is prefetched a row ahead.
                let [next, next_step] = following([example, step], examples, layer.before(step));
                let before_next = layer.before(next_step).unwrap_or(next_step);
                let [next, before_next] = [next_step, before_next].map(|step| next * steps + step);
                let next_gates = self.gates.as_ptr().wrapping_add(next * G * size);
                let next_hidden = self.hidden.as_ptr().wrapping_add(next * G * size);
                let next_saved = self.saved.as_ptr().wrapping_add(next * (VALUES - G) * size);
                let sums = &mut sums[example * G * stride..][..G * stride];
                let gates = &mut self.gates[of_gates.clone()];
                let hidden = self.hidden.get_mut(of_gates).unwrap_or_default();
                if !is_active(example) {
                    gates.fill(E::ZERO);
                    hidden.fill(E::ZERO);
                    sums.fill(E::ZERO);
                }
                let saved = &self.saved[row * (VALUES - G) * size..][..(VALUES - G) * size];
                let after = part_of_each(&self.states, &of_state);
                let above = part_of_each(&self.gradient, &of_state);
                for first in (0..size).step_by(S::LANES) {
                    prefetch_rows(next_gates, size, G, first);
                    prefetch_rows(next_saved, size, VALUES - G, first);
                    if !hidden.is_empty() {
                        prefetch_rows(next_hidden, size, G, first);
                    }
                    for gradient in self.gradient.iter().filter(|gradient| !gradient.is_empty()) {
                        prefetch(gradient.as_ptr().wrapping_add(next * size + first));
                    }
                    // The backward pass of a cell only reads the last of its states.
                    let states = self.states[N - 1].as_ptr();
                    prefetch(states.wrapping_add(next * size + first));
                    prefetch(states.wrapping_add(before_next * size + first));
                    let lanes = first..size.min(first + S::LANES);
                    let at = example * stride + first..example * stride + first + S::LANES;
                    let mut gradient = load_states(simd, &above, &lanes);
                    for (gradient, carried) in gradient.iter_mut().zip(&carried) {
                        *gradient = simd.add(simd.load(&carried[at.clone()]), *gradient);
                    }
                    if is_active(example) {
                        let mut values = [simd.zero(); VALUES];
                        let (of_cell, others) = values.split_at_mut(G);
                        load_rows_into(simd, gates, size, &lanes, of_cell);
                        load_rows_into(simd, saved, size, &lanes, others);
                        let before = load_states(simd, &before, &lanes);
                        let after = load_states(simd, &after, &lanes);
                        let gradients = C::backward(simd, values, [before, after], gradient);
                        store_rows(simd, &gradients.inputs, gates, size, &lanes);
                        if !hidden.is_empty() {
                            store_rows(simd, &gradients.hidden, hidden, size, &lanes);
                        }
                        let whole = first..first + S::LANES;
                        store_rows(simd, &gradients.hidden, sums, stride, &whole);
                        gradient = gradients.state;
                    }
                    for (carried, gradient) in carried.iter_mut().zip(gradient) {
                        simd.store(gradient, &mut carried[at.clone()]);
                    }
                }
            }
            // Before the first step there is only the initial state.
            let is_carried = layer.before(step).is_some() || self.initial_gradient.is_some();
            if is_carried && (0..examples).any(is_active) {
                for (gate, panels) in layer.weights.iter().enumerate() {
                    let (left, out) = (&sums[gate * stride..], &mut *carried[0]);
                    let (left, out) = ((left, G * stride), (out, stride));
                    panels.multiply(simd, examples, left, Start::Sum, out);
                }
            }
        }
        let initial_gradient = self.initial_gradient.into_iter().flatten();
        for (gradient, carried) in initial_gradient.zip(&carried) {
            let rows = gradient.chunks_exact_mut(size);
            for (to, from) in rows.zip(carried.chunks_exact(stride)) {
                to.copy_from_slice(&from[..size]);
            }
        }
    }
}
