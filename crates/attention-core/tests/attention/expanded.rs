//! Inputs that are one tensor repeated many times, with strides of 0.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, Mask, ScoringFunction};
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
    let received = Array::draw(4, &[batch, heads, queries, 13]);
    for mask in [
        Mask::none(),
        Mask::causal(),
        MaskSpec::lens(&[3, 6]).mask(device),
    ] {
        let run = |views: [Tensor<4>; 3]| {
            let [queries, keys, values] = views;
            let context = attention.forward(queries, keys, values, &mask);
            let gradients = (context.clone() * received.f32(device)).sum().backward();
            let of_leaves = leaves.iter().map(|leaf| leaf.grad(&gradients).unwrap());
            let all = [context].into_iter().chain(of_leaves);
            all.map(Array::read).collect::<Vec<_>>()
        };
        let view = |at: usize| leaves[at].clone();
        let expand = |at: usize| {
            let [_, _, rows, size] = leaves[at].dims();
            view(at).expand([batch, heads, rows, size])
        };
        let actual = run([expand(0), expand(1), expand(2)]);
        let repeated = [
            view(0).repeat_dim(1, heads),
            view(1).repeat_dim(0, batch),
            view(2).repeat_dim(0, batch).repeat_dim(1, heads),
        ];
        let expected = run(repeated);
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
