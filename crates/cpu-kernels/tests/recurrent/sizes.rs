//! Sizes around those of tiles, and sizes of 0.

use cpu_kernels::Level;

use crate::case::{Case, kernels};
use crate::oracle::assert_precise;

fn check(case: Case) {
    for case in case.variants() {
        let inputs = case.inputs::<f32>(5);
        assert_precise(&case, &kernels(Level::current(), &case, &inputs), &inputs);
    }
}

#[test]
fn every_hidden_size_around_a_vector_and_a_panel() {
    let sizes = if cfg!(miri) {
        vec![1, 15, 16, 17]
    } else {
        vec![
            1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 47, 48, 63, 64, 65, 127, 128, 129, 130,
        ]
    };
    for hidden_size in sizes {
        check(Case {
            hidden_size,
            ..Case::SMALL
        });
    }
}

#[test]
fn every_batch_around_a_task() {
    // On two threads a task has between 8 and 64 examples.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.unwrap();
    for batch in [1, 2, 8, 9, 15, 16, 17, 32, 33, 64, 65, 127, 128, 129] {
        let case = Case {
            batch,
            ..Case::SMALL
        };
        pool.install(|| check(case));
    }
}

#[test]
fn one_step() {
    check(Case {
        steps: 1,
        ..Case::SMALL
    });
}

#[test]
fn without_examples_steps_or_units_gradients_are_zero() {
    let empty = [
        Case {
            batch: 0,
            has_lens: false,
            ..Case::SMALL
        },
        Case {
            steps: 0,
            ..Case::SMALL
        },
        Case {
            hidden_size: 0,
            ..Case::SMALL
        },
    ];
    for case in empty {
        for kind in crate::case::Kind::ALL {
            let case = Case { kind, ..case };
            let inputs = case.inputs::<f32>(6);
            let results = kernels(Level::current(), &case, &inputs);
            for (name, elements) in results.fields() {
                assert!(elements.iter().all(|&x| x == 0.0), "{case:?}: {name}");
            }
        }
    }
}
