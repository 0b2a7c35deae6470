//! Inputs that are one tensor repeated many times, with strides of 0.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, ScoringFunction};
use attention_tests::parameters::results;
use attention_tests::{Array, MaskSpec, Problem, SIZES, assert_all_close, device};
use burn::tensor::{DType, Device, Tensor};

/// Queries shared by heads, keys by examples, values by both: stride 0.
fn expanded<S: ScoringFunction>(attention: &Attention<S>, key_size: usize, device: &Device) {
    let [batch, heads, queries, keys] = [2, 3, 5, 7];
    let leaf = |seed, shape: [usize; 4]| Array::draw(seed, &shape).leaf::<4>(device, DType::F32);
    let leaves = [
        leaf(1, [batch, 1, queries, 17]),
        leaf(2, [1, heads, keys, key_size]),
        leaf(3, [1, 1, keys, 13]),
    ];
    for mask in [MaskSpec::None, MaskSpec::Causal, MaskSpec::lens(&[3, 6])] {
        let mask = mask.mask(device);
        let run = |[queries, keys, values]: [Tensor<4>; 3]| {
            let context = attention.forward(queries, keys, values, &mask);
            results(context, leaves.clone(), 4)
        };
        let view = |at: usize| leaves[at].clone();
        let expand = |at: usize| {
            let [_, _, rows, size] = leaves[at].dims();
            view(at).expand([batch, heads, rows, size])
        };
        let actual = run([0, 1, 2].map(expand));
        let expected = run([
            view(0).repeat_dim(1, heads),
            view(1).repeat_dim(0, batch),
            view(2).repeat_dim(0, batch).repeat_dim(1, heads),
        ]);
        assert_all_close("context and gradients", &actual, &expected, 2e-6);
    }
}

#[test]
fn expanded_inputs_are_repeated_ones() {
    device::each_training(|device| {
        let score = Problem::additive(SIZES, MaskSpec::None).additive_score(device, DType::F32);
        expanded(&Attention::new(score, 0.0), SIZES.key_size, device);
        let score = DotProductScoreConfig::new().init();
        expanded(&Attention::new(score, 0.0), 17, device);
    });
}
