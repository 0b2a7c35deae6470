//! Extra keys where there is nothing else, and with scores composed of tensor operations.

use attention_core::functional::AttentionOptions;
use attention_core::position::AlibiConfig;
use attention_core::score::Biased;
use attention_core::{
    AdditiveAttentionConfig, Attention, DotProductAttentionConfig, Mask, Normalizer,
    ScoringFunction,
};
use attention_tests::{Array, assert_close, device, refuses};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

fn options(sizes: [usize; 2], device: &Device) -> AttentionOptions {
    let extra = [4, 5].map(|seed| Array::draw(seed, &[1, 1, 2, sizes[seed as usize - 4]]));
    AttentionOptions {
        extra_keys: Some(extra.map(|extra| extra.f32(device))),
        ..Default::default()
    }
}

#[test]
fn without_other_keys() {
    device::each(|device| {
        let attention = AdditiveAttentionConfig::new(3, 5, 8).init(device);
        let options = options([8, 6], device);
        let queries = || Array::draw(1, &[2, 4, 3]).f32::<3>(device);
        let none = |size| Tensor::<3>::zeros([2, 0, size], device);
        let expected = Array::read(attention.forward(queries(), none(5), none(6), &options));
        assert!(expected.magnitude() > 0.1);
        let output = attention.forward_with_weights(queries(), none(5), none(6), &options);
        assert_close("with weights", output.context, &expected, 1e-5);
        assert_eq!(output.weights.dims(), [2, 4, 2]);
        let memory = attention.prepare(none(5), none(6), Mask::none());
        let context = attention.attend(queries(), &memory, &options);
        assert_close("prepared", context, &expected, 1e-5);
        let sigmoid = attention.with_normalizer(Normalizer::Sigmoid);
        let context = sigmoid.forward(queries(), none(5), none(6), &options);
        assert_eq!(context.dims(), [2, 4, 6]);
    });
}

#[test]
fn weights_of_no_queries_count_them() {
    device::each(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let options = options([4, 4], device);
        let rows = |number| Tensor::<3>::ones([1, number, 4], device);
        for number in [0, 1] {
            let output = attention.forward_with_weights(rows(number), rows(3), rows(3), &options);
            assert_eq!(output.weights.dims(), [1, number, 5]);
        }
    });
}

/// A score without a kernel.
#[derive(Module, Debug)]
struct Products {}

impl ScoringFunction for Products {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _: &Mask) -> Tensor<4> {
        queries.matmul(keys.swap_dims(2, 3))
    }
}

#[test]
fn a_composed_score_with_terms_of_positions_has_none() {
    let device = &device::plain()[0];
    let score = Biased::new(Products {}, AlibiConfig::new(1).init());
    let attention = Attention::new(score, 0.0);
    let rows = |number| Tensor::<3>::ones([1, number, 4], device);
    let forward = |options: AttentionOptions| attention.forward(rows(2), rows(3), rows(3), options);
    assert_eq!(forward(AttentionOptions::default()).dims(), [1, 2, 4]);
    refuses(
        "no extra keys expected with a score that adds terms of positions",
        || forward(options([4, 4], device)),
    );
}
