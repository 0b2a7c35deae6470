//! Additive attention at sizes beyond what WebGPU promises: a buffer of 128 MiB, where the hidden units of all pairs
//! would take twice as much and more; 65,535 in a dimension of a dispatch.
#![cfg(feature = "flex")]

use attention_tests::{MaskSpec, Path, Problem, Sizes, assert_outcomes_close, device};
use burn::tensor::{DType, Device};

#[test]
fn many_hidden_units_of_many_pairs() {
    // 4 x 256 x 256 x 256.
    let sizes = Sizes::new([4, 0, 256, 256], [9, 9, 256, 24]);
    is_that_of_flex(sizes, MaskSpec::lens(&[256, 131, 0, 255]));
}

#[test]
fn many_keys() {
    // 16 x 16,384 x 256.
    let sizes = Sizes::new([1, 0, 16, 16_384], [9, 9, 256, 24]);
    is_that_of_flex(sizes, MaskSpec::lens(&[16_001]));
}

/// More examples than a dimension of a dispatch counts, 65,535.
#[test]
fn many_examples() {
    let sizes = Sizes::new([70_001, 0, 1, 3], [2, 2, 3, 2]);
    is_that_of_flex(sizes, MaskSpec::None);
}

/// Forward and backward.
fn is_that_of_flex(sizes: Sizes, mask: MaskSpec) {
    let mut problem = Problem::additive(sizes, mask);
    // Scores of a standard deviation of some units.
    let weight = problem.inputs["w_v"].clone().map(|x| x / 8.0);
    problem.set("w_v", weight);
    let expected = problem.run(&Device::flex().autodiff(), DType::F32, Path::Forward);
    device::each_training(|device| {
        let outcome = problem.run(device, DType::F32, Path::Forward);
        assert_outcomes_close("large", &outcome, &expected, 2e-5);
    });
}
