//! The error against `f64`, on every instruction set.

use cpu_kernels::Level;

use super::case::{Case, kernels};
use super::oracle::assert_precise;

/// In `f32` on elements of this seed, on every level.
fn check(case: &Case, seed: u64) {
    for level in Level::available() {
        let inputs = case.inputs::<f32>(seed);
        assert_precise(case, &kernels(level, case, &inputs), &inputs);
    }
}

#[test]
fn is_the_formula_on_every_level() {
    let larger = Case::SMALL.with_sizes(18, 7, 33);
    for case in [Case::SMALL, larger] {
        for case in case.variants() {
            check(&case, 1);
            for level in Level::available() {
                let inputs = case.inputs::<f64>(2);
                assert_precise(&case, &kernels(level, &case, &inputs), &inputs);
            }
        }
    }
}

#[test]
fn gates_may_be_small_or_saturated() {
    for spread in [1e-4, 0.1, 5.0, 40.0, 1e4] {
        for case in Case::SMALL.with_gates([spread, 0.0]).variants() {
            check(&case, 3);
        }
    }
}

#[test]
fn errors_do_not_grow_over_many_steps() {
    let long = Case::SMALL.with_sizes(2, 300, 40);
    for case in long.variants() {
        let inputs = case.inputs::<f32>(4);
        assert_precise(&case, &kernels(Level::current(), &case, &inputs), &inputs);
    }
}

/// States far from 0 that open gates carry through many steps: what a gate near 1 is off by is off in all of them.
#[test]
fn gates_near_their_ends_carry_states_through_many_steps() {
    let long = Case::SMALL.with_sizes(2, 60, 64);
    for (gates, initial) in [
        ([4.0, 3.0], [4.0, 3.0]),
        ([4.0, 3.0], [0.7, 0.0]),
        ([1.0, 14.0], [4.0, 3.0]),
        ([1.0, 14.0], [0.7, 0.0]),
        ([1.0, -14.0], [4.0, 3.0]),
        ([12.0, 0.0], [4.0, 3.0]),
    ] {
        for case in long.with_gates(gates).with_initial(initial).variants() {
            check(&case, 5);
        }
    }
}
