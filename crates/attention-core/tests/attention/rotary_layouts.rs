//! Parameters, taken from one layout of rotary embedding to the other.

use attention_core::position::{Rotary, RotaryConfig, RotaryLayout};
use attention_core::score::{QkNormScore, QkNormScoreConfig};
use attention_core::{Mask, MultiHeadAttention, MultiHeadAttentionConfig};
use attention_tests::{Array, assert_close, assert_same, device, parameters};
use burn::tensor::Device;

const LAYOUTS: [RotaryLayout; 2] = [RotaryLayout::Interleaved, RotaryLayout::HalfSplit];

/// Heads with fewer heads of keys, with biases and gains, turned as `config` says.
fn heads(config: &RotaryConfig, device: &Device) -> MultiHeadAttention<Rotary<QkNormScore>> {
    let heads = MultiHeadAttentionConfig::new(6 * config.size, 6)
        .with_query_size(Some(7))
        .with_key_size(Some(5))
        .with_value_size(Some(5))
        .with_num_key_value_heads(Some(2))
        .with_bias(true);
    let norm = QkNormScoreConfig::new(config.size).init(device);
    heads.init_with(config.init_with(norm, device), device)
}

#[test]
fn layouts_agree_after_parameters_are_reordered() {
    device::each(|device| {
        for (rotated, after_projection) in [(None, true), (Some(6), true), (Some(4), false)] {
            for (ours, theirs) in [(LAYOUTS[0], LAYOUTS[1]), (LAYOUTS[1], LAYOUTS[0])] {
                let config = |layout| {
                    RotaryConfig::new(10, 11)
                        .with_layout(layout)
                        .with_rotated_size(rotated)
                        .with_after_projection(after_projection)
                };
                let given = heads(&config(theirs), device);
                let given = parameters::changed(given, |name, value| {
                    Array::draw(name.len() as u64, &value.shape).map(|x| x / 4.0)
                });
                let ours = config(ours);
                let score = given.attention.score.score.clone();
                let mut taken = given.clone();
                taken.attention.score = ours.init_with(score, device);
                let untaken = taken.clone();
                let [query, key] = [&given.query, &given.key].map(|layer| {
                    let mut layer = layer.clone();
                    layer.weight = layer.weight.map(|weight| ours.reordered(weight, theirs));
                    let reorder = |bias| ours.reordered(bias, theirs);
                    layer.bias = layer.bias.map(|bias| bias.map(reorder));
                    layer
                });
                (taken.query, taken.key) = (query, key);
                let gains = &mut taken.attention.score.score;
                gains.query = gains.query.clone().map(|gain| ours.reordered(gain, theirs));
                gains.key = gains.key.clone().map(|gain| ours.reordered(gain, theirs));

                let rows = |seed, len, size| Array::draw(seed, &[2, len, size]).f32::<3>(device);
                let context = |module: &MultiHeadAttention<_>| {
                    let (queries, memory) = (rows(1, 5, 7), rows(2, 9, 5));
                    Array::read(module.forward(queries, memory.clone(), memory, Mask::causal()))
                };
                let expected = context(&given);
                assert_close("reordered", &context(&taken), &expected, 4e-6);
                let difference = context(&untaken).data.into_iter().zip(&expected.data);
                let difference = difference.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(difference > 1e-3, "as they were: {difference:e}");
                // And back.
                let weight = taken.query.weight.val();
                let back = config(theirs).reordered(weight, ours.layout);
                assert_same("back", back, given.query.weight.val());
            }
        }
    });
}

/// Hugging Face's `permute`, which takes the interleaved weights of Meta's Llama to half-split ones.
#[test]
fn features_are_reordered_as_hugging_face_does() {
    let (heads, size) = (3, 10);
    let device = &device::plain()[0];
    let config = RotaryConfig::new(size, 1).with_layout(RotaryLayout::HalfSplit);
    let weight = Array::draw(1, &[7, heads * size]);
    let taken = config.reordered(weight.f32::<2>(device), RotaryLayout::Interleaved);
    // `view(heads, size // 2, 2, in).transpose(1, 2)`, of columns here.
    let expected = weight.reshape(&[7, heads, size / 2, 2]);
    let expected = expected.permute(&[0, 1, 3, 2]);
    assert_same("permuted", taken, &expected.reshape(&[7, heads * size]));
}
