//! Additive attention at sizes at which the hidden units of all pairs, 256 MiB and more, are beyond what many devices
//! have in one buffer: WebGPU promises 128 MiB.
#![cfg(feature = "flex")]

use attention_tests::{MaskSpec, Path, Problem, Sizes, assert_outcomes_close, device};
use burn::tensor::{DType, Device};

#[test]
fn many_hidden_units_of_many_pairs() {
    // 4 x 256 x 256 x 256.
    let sizes = Sizes {
        batch: 4,
        heads: 0,
        queries: 256,
        keys: 256,
        query_size: 9,
        key_size: 9,
        hiddens: 256,
        value_size: 24,
    };
    is_that_of_flex(sizes, MaskSpec::lens(&[256, 131, 0, 255]));
}

#[test]
fn many_keys() {
    // 16 x 16,384 x 256.
    let sizes = Sizes {
        batch: 1,
        heads: 0,
        queries: 16,
        keys: 16_384,
        query_size: 9,
        key_size: 9,
        hiddens: 256,
        value_size: 24,
    };
    is_that_of_flex(sizes, MaskSpec::lens(&[16_001]));
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
