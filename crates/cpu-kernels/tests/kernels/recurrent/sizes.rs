//! Sizes around the sizes of tiles, and sizes of 0.

use attention_oracle::Cell;
use cpu_kernels::Level;

use super::case::{Case, kernels};
use super::oracle::assert_precise;
use crate::calls::on_threads;

fn check(case: Case) {
    for case in case.variants() {
        let inputs = case.inputs::<f32>(5);
        assert_precise(&case, &kernels(Level::current(), &case, &inputs), &inputs);
    }
}

#[test]
fn every_hidden_size_around_a_vector_and_a_panel() {
    let vectors = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 47, 48];
    for hidden_size in vectors.into_iter().chain(63..=65).chain(127..=130) {
        check(Case::SMALL.with_hidden_size(hidden_size));
    }
}

#[test]
fn every_batch_around_a_task() {
    // On two threads a task has between 8 and 64 examples.
    for batch in [1, 2, 8, 9, 15, 16, 17, 32, 33, 64, 65, 127, 128, 129] {
        on_threads(2, || check(Case::SMALL.with_batch(batch)));
    }
}

#[test]
fn one_step() {
    check(Case::SMALL.with_steps(1));
}

#[test]
fn without_examples_steps_or_units_gradients_are_zero() {
    let empty = [
        Case::SMALL.with_batch(0).with_has_lens(false),
        Case::SMALL.with_steps(0),
        Case::SMALL.with_hidden_size(0),
    ];
    for case in empty {
        for kind in [Cell::Gru, Cell::Lstm] {
            let case = Case { kind, ..case };
            let inputs = case.inputs::<f32>(6);
            let results = kernels(Level::current(), &case, &inputs);
            for (name, elements) in results.fields() {
                assert!(elements.iter().all(|&x| x == 0.0), "{case:?}: {name}");
            }
        }
    }
}
