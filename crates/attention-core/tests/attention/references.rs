//! PyTorch's results: outputs and gradients of every reference case.

use attention_tests::{Path, assert_outcomes_close, device, reference};
use burn::tensor::DType;

/// Runs every case of `file` with and without weights, forward and backward.
fn check(file: &str) {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for case in reference(file) {
                let (problem, mut expected) = case.problem();
                // Ten digits are in the file.
                let tolerance = match dtype {
                    DType::F64 => 1e-8,
                    _ => 2e-5,
                };
                let what = format!("{file}: {}: {dtype:?}", case.name);
                let outcome = problem.run(device, dtype, Path::ForwardWithWeights);
                assert_outcomes_close(&what, &outcome, &expected, tolerance);

                if problem.grad_weights.is_none() {
                    expected.remove("weights");
                    let outcome = problem.run(device, dtype, Path::Forward);
                    assert_outcomes_close(&what, &outcome, &expected, tolerance);
                }
            }
        }
    });
}

#[test]
fn additive_attention_is_that_of_pytorch() {
    check("additive");
}

#[test]
fn additive_attention_is_that_of_pytorch_saturated_and_at_size_one() {
    check("additive_shapes");
}

#[test]
fn dot_product_attention_is_that_of_pytorch() {
    check("dot_product");
}

#[test]
fn dot_product_attention_is_that_of_pytorch_with_heads_and_a_causal_mask() {
    check("dot_product_shapes");
}
