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
    let sizes = vec![
        1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 47, 48, 63, 64, 65, 127, 128, 129, 130,
    ];
    for hidden_size in sizes {
        check(Case::SMALL.with_hidden_size(hidden_size));
    }
}

#[test]
fn every_batch_around_a_task() {
    // On two threads a task has between 8 and 64 examples.
    for batch in [1, 2, 8, 9, 15, 16, 17, 32, 33, 64, 65, 127, 128, 129] {
        let case = Case::SMALL.with_batch(batch);
        on_threads(2, || check(case));
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
