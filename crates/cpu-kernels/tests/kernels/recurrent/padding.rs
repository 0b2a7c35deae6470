//! Steps past an example's length are not read, and change nothing.

use cpu_kernels::Level;

use super::case::{Case, kernels};

const CASE: Case = Case::SMALL.with_batch(5).with_steps(6);

#[test]
fn padding_may_hold_anything() {
    for case in CASE.variants().into_iter().filter(|case| case.has_lens) {
        let inputs = case.inputs::<f32>(1);
        let expected = kernels(Level::current(), &case, &inputs);
        for poison in [f32::NAN, f32::INFINITY, 1e30] {
            let mut poisoned = inputs.clone();
            let row = case.kind.gates() * case.hidden_size;
            for example in 0..case.batch {
                for step in case.len(example)..case.steps {
                    poisoned.gates[(example * case.steps + step) * row..][..row].fill(poison);
                }
            }
            let results = kernels(Level::current(), &case, &poisoned);
            assert!(results.bits() == expected.bits(), "{case:?}: {poison}");
        }
    }
}

#[test]
fn the_state_stays_where_an_example_has_ended() {
    for case in CASE.variants() {
        let inputs = case.inputs::<f32>(2);
        let results = kernels(Level::current(), &case, &inputs);
        let size = case.hidden_size;
        for first in 0..case.kind.states() * case.batch {
            let state = |step: usize| &results.states[(first * case.steps + step) * size..][..size];
            let len = case.len(first % case.batch);
            let held = match (case.is_reversed, len) {
                (true, _) | (_, 0) => &inputs.initial[first * size..][..size],
                (false, len) => state(len - 1),
            };
            for step in len..case.steps {
                assert_eq!(state(step), held, "{case:?}");
            }
        }
    }
}

/// An example alone, without its padding, gives the bits that it gives in a batch.
#[test]
fn examples_do_not_depend_on_each_other() {
    for case in CASE.variants() {
        let inputs = case.inputs::<f32>(3);
        let together = kernels(Level::current(), &case, &inputs);
        let (size, gates) = (case.hidden_size, case.kind.gates());
        for example in 0..case.batch {
            let len = case.len(example);
            if len == 0 {
                continue;
            }
            let alone = case.with_batch(1).with_steps(len).with_has_lens(false);
            let of_states = |from: &[f32], rows: usize, taken: usize| -> Vec<f32> {
                let states = from.chunks(case.batch * rows * size);
                let states = states.map(|state| &state[example * rows * size..][..taken * size]);
                states.flatten().copied().collect()
            };
            let row = case.steps * gates * size;
            let part = example * row..example * row + len * gates * size;
            let mut of_example = inputs.clone();
            of_example.gates = inputs.gates[part.clone()].to_vec();
            of_example.initial = of_states(&inputs.initial, 1, 1);
            of_example.gradient = of_states(&inputs.gradient, case.steps, len);
            let results = kernels(Level::current(), &alone, &of_example);
            assert_eq!(results.states, of_states(&together.states, case.steps, len));
            if len == case.steps {
                assert_eq!(results.gates, together.gates[part]);
                assert_eq!(results.initial, of_states(&together.initial, 1, 1));
            }
        }
    }
}
