//! Heads with biases of their own, learned keys, and a batch of one.

use attention_core::functional::{self, AttentionOptions};
use attention_core::{DotProductScore, Mask, MultiHeadAttention, MultiHeadAttentionConfig};
use attention_tests::heads::{HEADS, HIDDENS};
use attention_tests::{Array, assert_all_close, assert_close, assert_same, device};
use burn::nn::Initializer;
use burn::tensor::Tensor;

#[test]
fn each_projection_may_have_a_bias() {
    device::each(|device| {
        let config = MultiHeadAttentionConfig::new(HIDDENS, HEADS).with_bias(true);
        let whisper = config.clone().with_key_bias(Some(false)).init(device);
        let has = |module: &MultiHeadAttention<DotProductScore>| {
            let layers = [&module.query, &module.key, &module.value];
            let inputs = layers.map(|layer| layer.bias.is_some());
            let output = module.output.as_ref();
            (inputs, output.is_some_and(|layer| layer.bias.is_some()))
        };
        assert_eq!(has(&whisper), ([true, false, true], true));
        let qwen = MultiHeadAttentionConfig::new(HIDDENS, HEADS)
            .with_query_bias(Some(true))
            .with_key_bias(Some(true))
            .with_value_bias(Some(true))
            .with_initializer(Initializer::Constant { value: 0.25 })
            .init(device);
        assert_eq!(has(&qwen), ([true; 3], false));
        let weight = Array::read(qwen.key.weight.val());
        assert_same("initializer", &weight, &Array::full(&[HIDDENS; 2], 0.25));
    });
}

/// One text for all queries, or one query for all texts.
#[test]
fn a_batch_of_one_serves_all_examples() {
    device::each(|device| {
        let module = MultiHeadAttentionConfig::new(HIDDENS, HEADS).init(device);
        let draw = |seed, shape: [usize; 3]| Array::draw(seed, &shape).f32::<3>(device);
        let (queries, text) = (draw(1, [3, 2, HIDDENS]), draw(2, [1, 5, HIDDENS]));
        let every = |rows: &Tensor<3>| rows.clone().repeat_dim(0, 3);
        let forward = |[q, k, v]: [Tensor<3>; 3]| {
            let mask = Mask::valid_lens(Tensor::from_ints([5, 0, 3], device));
            let output = module.forward_with_weights(q.clone(), k.clone(), v.clone(), &mask);
            [module.forward(q, k, v, mask), output.mean_weights()].map(Array::read)
        };
        let (query, texts) = (draw(3, [1, 2, HIDDENS]), every(&text));
        let of = |rows: [&Tensor<3>; 3]| forward(rows.map(Tensor::clone));
        let (one, all) = (of([&queries, &text, &text]), of([&queries, &texts, &texts]));
        assert_all_close("one text", &one, &all, 1e-6);
        let (one, all) = (
            of([&query, &texts, &texts]),
            of([&every(&query), &texts, &texts]),
        );
        assert_all_close("one query", &one, &all, 1e-6);
    });
}

/// PyTorch's `add_bias_kv`: parameters of the module are what the options of a call would be.
#[test]
fn learned_keys_are_in_every_call() {
    device::each(|device| {
        let config = MultiHeadAttentionConfig::new(HIDDENS, HEADS).with_num_extra_keys(2);
        let module = config.init(device);
        let rows = Array::draw(4, &[2, 3, HIDDENS]).f32::<3>(device);
        let extra = module.attention.extra_keys.clone().unwrap();
        let mut plain = module.clone();
        plain.attention.extra_keys = None;
        let options = AttentionOptions {
            mask: Mask::valid_lens(Tensor::from_ints([0, 2], device)),
            extra_keys: Some([extra.keys, extra.values].map(|rows| rows.val().unsqueeze())),
            ..Default::default()
        };
        let own = AttentionOptions::from(&options.mask);
        let outputs = [(&module, own), (&plain, options)].map(|(module, options)| {
            let [q, k, v] = [(); 3].map(|()| rows.clone());
            let output = module.forward_with_weights(q, k, v, options);
            assert_eq!(output.weights.dims(), [2, HEADS, 3, 5]);
            let rest = functional::weight_of_no_key(output.weights);
            let ones = Array::full(&[2, HEADS, 3, 1], 1.0);
            assert_close("weights", rest + 1.0, &ones, 1e-6);
            Array::read(output.context)
        });
        assert_same("context", &outputs[0], &outputs[1]);
    });
}
