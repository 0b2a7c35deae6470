//! Both passes, divided into tasks of some examples each.

use std::marker::PhantomData;

use super::backward::Backward;
use super::cell::{Cell, VALUES};
use super::forward::Forward;
use super::gates::Gates;
use super::inputs::{OPERATION, RecurrentGradients, RecurrentInputs, RecurrentOutputs};
use super::parts::{of_states, part_of_each, parts_of_states};
use crate::checks::check_len;
use crate::product::Aligned;
use crate::slices::equal_parts;
use crate::threads::for_each;
use crate::{Level, Real};

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
    let tasks: Vec<_> = inputs
        .tasks()
        .zip(parts_of_states(states, len))
        .zip(gates.parts(len, [G, VALUES - G]))
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
    let (states, saved) = (outputs.states, outputs.saved);
    let (gradient, last_gradient) = (outputs.gradient, outputs.last_gradient);
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
    let shape = [batch, steps, (VALUES - G) * size];
    check_len(OPERATION, "saved values", shape, saved.len());
    let (gates, hidden, initial) = (gradients.gates, gradients.hidden, gradients.initial);
    let shape = [batch, steps, G * size];
    check_len(OPERATION, "gradient of the gates", shape, gates.len());
    if let Some(hidden) = &hidden {
        let name = "gradient of the hidden projection";
        check_len(OPERATION, name, shape, hidden.len());
    }
    if let Some(initial) = &initial {
        let name = "gradient of the initial state";
        check_len(OPERATION, name, [N, batch, size], initial.len());
    }
    if states.is_empty() {
        // Without steps the final state is the initial one.
        if let Some(initial) = initial {
            initial.fill(E::ZERO);
            for (initial, last) in equal_parts(initial, N).into_iter().zip(last_gradient) {
                initial[..last.len()].copy_from_slice(last);
            }
        }
        return;
    }
    let mut buffers = std::array::from_fn(|_| Aligned::default());
    let layer = inputs.layer(level, true, &mut buffers);
    let rows = batch * steps;
    let examples = inputs.examples_of_task();
    let len = examples * steps * size;
    let mut of_gates = gates.chunks_mut(G * len);
    let mut of_hidden = hidden.unwrap_or_default().chunks_mut(G * len);
    let of_initial = initial.map(|initial| parts_of_states(initial, examples * size));
    let mut of_initial = of_initial.map(Vec::into_iter);
    let tasks: Vec<_> = inputs
        .tasks()
        .enumerate()
        .map(|(task, (initial, lens))| {
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
                initial_gradient: of_initial.as_mut().and_then(Iterator::next),
                cell: PhantomData::<C>,
            }
        })
        .collect();
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
}
