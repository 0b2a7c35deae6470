//! Ways to the same result agree: with and without weights, at once and prepared, on every backend.

use attention_tests::{Path, Problem, SIZES, Sizes, assert_outcomes_close, device, masks};
use burn::tensor::DType;

#[test]
fn with_and_without_weights_agree_forward_and_backward() {
    let shape = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    device::each_training(|device| {
        for (name, mask) in masks(shape) {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                let mut expected = problem.run(device, DType::F32, Path::ForwardWithWeights);
                if expected["context"].magnitude() == 0.0 {
                    continue;
                }
                expected.remove("weights");
                for path in [Path::Forward, Path::Attend, Path::AttendWithWeights] {
                    let outcome = problem.run(device, DType::F32, path);
                    let what = format!("{kind}: {name}: {path:?}");
                    assert_outcomes_close(&what, &outcome, &expected, 2e-6);
                }
            }
        }
    });
}

#[test]
fn training_and_inference_agree() {
    let shape = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    device::each(|device| {
        let training = device.clone().autodiff();
        for (name, mask) in masks(shape) {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                for path in Path::ALL {
                    let expected = problem.run(device, DType::F32, path);
                    if expected["context"].magnitude() == 0.0 {
                        continue;
                    }
                    let outcome = problem.run(&training, DType::F32, path);
                    assert_outcomes_close(&format!("{kind}: {name}"), &outcome, &expected, 1e-6);
                }
            }
        }
    });
}

#[test]
fn backends_agree() {
    let devices = device::plain();
    // One problem off and one above any tile.
    let large = Sizes {
        batch: 2,
        heads: 1,
        queries: 37,
        keys: 71,
        query_size: 5,
        key_size: 3,
        hiddens: 67,
        value_size: 17,
    };
    for (sizes, tolerance) in [(SIZES, 6e-6), (large, 3e-5)] {
        let shape = [sizes.batch, sizes.heads, sizes.queries, sizes.keys];
        for (name, mask) in masks(shape) {
            for (kind, problem) in Problem::both(sizes, &mask) {
                let first = devices[0].clone().autodiff();
                let expected = problem.run(&first, DType::F32, Path::Forward);
                if expected["context"].magnitude() == 0.0 {
                    continue;
                }
                for other in &devices[1..] {
                    let outcome = problem.run(&other.clone().autodiff(), DType::F32, Path::Forward);
                    let what = format!("{kind}: {name}: {other:?}");
                    assert_outcomes_close(&what, &outcome, &expected, tolerance);
                }
            }
        }
    }
}
