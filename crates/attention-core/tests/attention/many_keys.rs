//! Few queries of many keys, and many queries of few keys: on a GPU several parts of a sum are computed at once there,
//! and put together.
#![cfg(feature = "flex")]

use attention_core::functional::{AttentionOptions, dot_product_attention};
use attention_tests::parameters::results;
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, Sizes, assert_all_close, assert_outcomes_close, device,
};
use burn::tensor::{DType, Device, Tensor};

const KEYS: usize = 1_030;

fn sizes(queries: usize, keys: usize) -> Sizes {
    SIZES.with_heads(2).with_queries(queries).with_keys(keys)
}

/// Forward and backward, both attentions.
fn are_those_of_flex(sizes: Sizes, mask: &MaskSpec) {
    for (name, problem) in Problem::both(sizes, mask) {
        let expected = problem.run(&Device::flex().autodiff(), DType::F32, Path::Forward);
        device::each_training(|device| {
            let outcome = problem.run(device, DType::F32, Path::Forward);
            let what = format!("{name}, {} x {}", sizes.queries, sizes.keys);
            assert_outcomes_close(&what, &outcome, &expected, 1e-5);
        });
    }
}

#[test]
fn one_query() {
    for mask in [
        MaskSpec::None,
        // One example ends within the first part, or has no key.
        MaskSpec::lens(&[17, 1_029]),
        MaskSpec::lens(&[0, 700]),
        // Only the last part has keys.
        MaskSpec::Causal.and(MaskSpec::window(3, 0)),
        MaskSpec::drawn(5, &[2, 2, 1, KEYS], 0.4),
    ] {
        are_those_of_flex(sizes(1, KEYS), &mask);
    }
}

#[test]
fn few_queries() {
    let lens = MaskSpec::lens_per_query(2, &[0, 900, 65, 64, 1, 1_030]);
    are_those_of_flex(sizes(3, KEYS), &lens);
    are_those_of_flex(sizes(9, KEYS), &MaskSpec::Causal);
    are_those_of_flex(sizes(33, KEYS), &MaskSpec::drawn(6, &[33, KEYS], 0.4));
}

#[test]
fn few_keys() {
    are_those_of_flex(sizes(500, 1), &MaskSpec::None);
    are_those_of_flex(sizes(500, 11), &MaskSpec::lens(&[3, 11]));
}

/// Minus infinity masks a key.
#[test]
fn a_bias_of_the_keys() {
    for (queries, keys) in [(1, KEYS), (500, 11)] {
        let sizes = sizes(queries, keys);
        let problem = Problem::dot_product(sizes, MaskSpec::None);
        let run = |device: &Device| {
            let input = |name: &str| problem.inputs[name].f32::<4>(device);
            let bias = Array::draw(7, &[sizes.batch, sizes.heads, 1, keys]);
            let bias = bias.map(|x| if x > 1.9 { f64::NEG_INFINITY } else { x });
            let bias: Tensor<4> = bias.leaf(device, DType::F32);
            let values = input("values").require_grad();
            let options = AttentionOptions {
                scale: Some(0.3),
                bias: Some(bias.clone()),
                ..Default::default()
            };
            let (q, k, v) = (input("queries"), input("keys"), values.clone());
            results(dot_product_attention(q, k, v, &options), [bias, values], 8)
        };
        let expected = run(&Device::flex().autodiff());
        device::each_training(|device| {
            assert_all_close(format!("{queries} x {keys}"), &run(device), &expected, 1e-5);
        });
    }
}
