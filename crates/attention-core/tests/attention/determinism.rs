//! The same bits every time, whatever the number of threads.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use attention_tests::{
    MaskSpec, Outcome, Path, Problem, SIZES, Sizes, assert_outcomes_same, device,
};
use burn::tensor::DType;

#[test]
fn a_hundred_runs_give_the_same_bits() {
    device::each_training(|device| {
        let mask = MaskSpec::lens(&[4, 6]).and(MaskSpec::Causal);
        for (kind, problem) in Problem::both(SIZES, &mask) {
            let problem = problem.with_grad_weights(5);
            for path in [Path::ForwardWithWeights, Path::Forward] {
                let expected = problem.run(device, DType::F32, path);
                for _ in 0..100 {
                    let outcome = problem.run(device, DType::F32, path);
                    assert_outcomes_same(kind, &outcome, &expected);
                }
            }
        }
    });
}

/// Large enough that backends share the work between threads.
const LARGE: Sizes = Sizes::new([3, 2, 37, 131], [61, 67, 41, 71]);

fn hash(outcome: &Outcome) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, array) in outcome {
        name.hash(&mut hasher);
        array.shape.hash(&mut hasher);
        for number in &array.data {
            number.to_bits().hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[test]
fn concurrent_runs_give_the_same_bits() {
    device::each_training(|device| {
        for (kind, problem) in Problem::both(SIZES, &MaskSpec::lens(&[4, 6])) {
            let run = || problem.run(device, DType::F32, Path::Forward);
            let expected = run();
            std::thread::scope(|scope| {
                for thread in [0; 4].map(|_| scope.spawn(run)) {
                    assert_outcomes_same(kind, &thread.join().unwrap(), &expected);
                }
            });
        }
    });
}

/// Not a test of its own: prints what the test below compares.
#[test]
#[ignore = "run by `the_number_of_threads_changes_no_bit` in a process of its own"]
fn print_hashes() {
    device::each_training(|device| {
        for (kind, problem) in Problem::both(LARGE, &MaskSpec::lens(&[97, 131, 64])) {
            let outcome = problem.run(device, DType::F32, Path::Forward);
            assert!(outcome["context"].magnitude() > 0.0);
            println!("hash {kind} {:016x}", hash(&outcome));
        }
    });
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    // The thread pool of a process is built once: one process for each number.
    let hashes = |threads: &str| -> Vec<String> {
        let output = Command::new(std::env::current_exe().unwrap())
            .args("--exact determinism::print_hashes --ignored --nocapture".split(' '))
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .filter_map(|line| line.find("hash ").map(|at| line[at..].to_string()))
            .collect()
    };
    let one = hashes("1");
    assert_eq!(one.len(), 2 * device::plain().len(), "{one:?}");
    assert_eq!(hashes("2"), one);
    assert_eq!(hashes("3"), one);
}
