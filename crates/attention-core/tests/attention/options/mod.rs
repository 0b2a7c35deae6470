//! Soft-cap, biases, sinks and further keys of a call, against plain loops, fused and step by step.

mod case;
mod limits;
mod module;
mod score_mod;

use attention_core::functional::{
    AttentionOptions, additive_attention, additive_attention_steps, dot_product_attention,
    dot_product_attention_steps,
};
use attention_core::position::AlibiConfig;
use attention_core::score::{Biased, DotProductScoreConfig, GaussianScoreConfig};
use attention_core::{Attention, Mask, MultiHeadAttentionConfig, ScoringFunction};
use attention_tests::{
    Array, MaskSpec, assert_all_close, assert_close, assert_zero, device, oracle,
};
use burn::tensor::Tensor;

use case::{
    BATCH, Call, HEADS, KEY_HEADS, Options, SCALE, SIZE, VALUE_SIZE, check_steps, gradients, masks,
    options, sizes,
};

/// The fused call and its steps are the plain loops, and their gradients agree.
fn check_calls(is_additive: bool) {
    device::each_training(|device| {
        for sizes in sizes() {
            for (name, options) in options(sizes) {
                for mask in masks(sizes) {
                    let what = format!("{name}, {sizes:?}, {mask:?}");
                    let call = Call::new(sizes, options.clone(), mask);
                    let weight = &call.inputs[3];
                    let expected = call.expected(|query, key| {
                        let units = query.iter().zip(key);
                        let additive = |(u, (q, k))| weight.at(&[u]) * f64::tanh(q + k);
                        match is_additive {
                            true => units.enumerate().map(additive).sum(),
                            false => SCALE * units.map(|(q, k)| q * k).sum::<f64>(),
                        }
                    });
                    let run = |is_fused: bool| {
                        let (leaves, vectors, mut options) = call.on(device);
                        let [q, k, v] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                        let w = vectors[0].clone();
                        options.scale = (!is_additive).then_some(SCALE);
                        let context = match (is_fused, is_additive) {
                            (true, true) => additive_attention(q, k, v, w, &options),
                            (true, false) => dot_product_attention(q, k, v, &options),
                            (false, _) => {
                                let steps = match is_additive {
                                    true => additive_attention_steps(q, k, v, w, &options),
                                    false => dot_product_attention_steps(q, k, v, &options),
                                };
                                check_steps(&what, steps.clone(), &expected);
                                steps.context
                            }
                        };
                        let result = Array::read(context.clone());
                        assert_close(&what, &result, &expected.context, 1e-5);
                        gradients(context, &leaves, &vectors[usize::from(!is_additive)..])
                    };
                    assert_all_close(format!("{what}: gradient"), &run(true), &run(false), 3e-5);
                }
            }
        }
    });
}

#[test]
fn dot_products_are_those_of_plain_loops() {
    check_calls(false);
}

#[test]
fn additive_scores_are_those_of_plain_loops() {
    check_calls(true);
}

/// Modules take the options of a call; with weights and without, each normalizer that knows them.
#[test]
fn modules_take_the_options_of_a_call() {
    device::each(|device| {
        let sizes = [5, 7];
        let with_positions = |score| Biased::new(score, AlibiConfig::new(HEADS).init());
        for (name, options) in options(sizes) {
            let call = Call::new(sizes, options, MaskSpec::Causal);
            let (leaves, _, options) = call.on(device);
            let [q, k, v] = [0, 1, 2].map(|n: usize| leaves[n].clone());
            let expected = dot_product_attention(q, k, v, &options);
            let dot = || DotProductScoreConfig::new().init();
            let same = |what: &str, attention: &dyn Fn(bool) -> Tensor<4>, expected: &Tensor<4>| {
                for with_weights in [false, true] {
                    let got = attention(with_weights);
                    let what = format!("{name}, {what}, with weights: {with_weights}");
                    assert_close(&what, got, expected.clone(), 1e-5);
                }
            };
            let own = Attention::new(dot(), 0.0);
            let what = "a dot product";
            same(what, &|w| pooled(&own, &leaves, &options, w), &expected);
            // Positions go to the fused kernel, or to the score that stores all pairs.
            let biased = Attention::new(with_positions(dot()), 0.0);
            let fused = pooled(&biased, &leaves, &options, false);
            same("ALiBi", &|w| pooled(&biased, &leaves, &options, w), &fused);
            // Heads of keys are shared there, too.
            let config = MultiHeadAttentionConfig::new(6 * HEADS, HEADS);
            let attention = config
                .with_num_key_value_heads(Some(KEY_HEADS))
                .init(device);
            let rows = |seed, rows| Array::draw(seed, &[BATCH, rows, 6 * HEADS]).f32::<3>(device);
            let mut of_heads = options.clone();
            of_heads.extra_keys = of_heads.extra_keys.map(|extra| {
                extra.map(|rows| {
                    let batch = rows.dims()[0];
                    rows.slice([0..batch, 0..KEY_HEADS, 0..2, 0..6])
                })
            });
            let [q, k, v] = [rows(1, 5), rows(2, 7), rows(3, 7)];
            let context = attention.forward(q.clone(), k.clone(), v.clone(), &of_heads);
            let output = attention.forward_with_weights(q, k, v, of_heads);
            assert_close(name, context, output.context, 1e-5);
        }
    });
}

fn pooled<S: ScoringFunction>(
    attention: &Attention<S>,
    leaves: &[Tensor<4>],
    options: &AttentionOptions,
    with_weights: bool,
) -> Tensor<4> {
    let [q, k, v] = [0, 1, 2].map(|n: usize| leaves[n].clone());
    match with_weights {
        true => attention.forward_with_weights(q, k, v, options).context,
        false => attention.forward(q, k, v, options),
    }
}

/// Masked pairs, whatever they hold, and a query without a key: exactly 0, with sinks too.
#[test]
fn padding_and_keyless_queries_stay_harmless() {
    device::each_training(|device| {
        let sizes = [5, 7];
        let mask = MaskSpec::lens_per_query(BATCH, &[5, 3, 0, 5, 5, 1, 0, 2, 2, 2]);
        for (name, options) in options(sizes) {
            let keyless = options.extra.is_none();
            let mut clean = Call::new(sizes, options, mask.clone());
            let run = |call: &Call, poison: bool| {
                let (leaves, vectors, options) = call.on(device);
                let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                let context = dot_product_attention(queries, keys, values, &options);
                let factors = Array::from_fn(&context.dims(), |at| {
                    let is_keyless = [(0, 2), (1, 1)].contains(&(at[0], at[2]));
                    match is_keyless && poison {
                        true => f64::NAN,
                        false => 0.5 + at[3] as f64,
                    }
                });
                let result = Array::read(context.clone());
                let gradients = (context * factors.f32(device)).sum().backward();
                let mut all = vec![result];
                let rows = leaves
                    .iter()
                    .map(|leaf| leaf.grad(&gradients).expect("a leaf"));
                all.extend(rows.map(Array::read));
                let sinks = vectors[1..]
                    .iter()
                    .map(|leaf| leaf.grad(&gradients).expect("a leaf"));
                all.extend(sinks.map(Array::read));
                all
            };
            let expected = run(&clean, false);
            if keyless {
                let of_query = |at: &[usize]| expected[0].at(&[0, at[0], 2, at[1]]);
                assert_zero(name, &Array::from_fn(&[HEADS, VALUE_SIZE], of_query));
            }
            // Keys 5 and 6 are nobody's.
            for input in &mut clean.inputs[1..3] {
                *input = input.masked_fill(f64::NAN, |at| at[2] == 6);
            }
            assert_all_close(name, &run(&clean, keyless), &expected, 1e-6);
        }
    });
}

/// Weights of keys and sinks sum to 1, by the oracle's softmax without sinks.
#[test]
fn a_sink_takes_its_share() {
    device::each(|device| {
        let call = Call::new([5, 7], Options::default(), MaskSpec::None);
        let (leaves, _, mut options) = call.on(device);
        options.sinks = Some(Tensor::full([HEADS], f64::NEG_INFINITY, device));
        let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
        let steps = dot_product_attention_steps(queries, keys, values, &options);
        let scores = Array::read(steps.scores);
        let expected = oracle::masked_softmax(&scores, &MaskSpec::None);
        assert_close("a sink of minus infinity", steps.weights, &expected, 1e-6);
    });
}

#[test]
fn a_bias_of_minus_infinity_masks_a_pair() {
    device::each_training(|device| {
        for sizes @ [queries, keys] in sizes() {
            let attends = |i: usize, j: usize| !(i + 2 * j).is_multiple_of(3);
            let zeros = Array::full(&[1, 1, queries, keys], 0.0);
            let bias = zeros.masked_fill(f64::NEG_INFINITY, |at| !attends(at[2], at[3]));
            let keep = Array::from_fn(&[1, queries, keys], |at| f64::from(attends(at[1], at[2])));
            let run = |options, mask| {
                let (leaves, _, options) = Call::new(sizes, options, mask).on(device);
                let [q, k, v] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                let context = dot_product_attention(q, k, v, &options);
                let result = Array::read(context.clone());
                (result, gradients(context, &leaves[..3], &[]))
            };
            let by_bias = Options {
                bias: Some(bias),
                ..Options::default()
            };
            let (result, of_bias) = run(by_bias, MaskSpec::None);
            let (expected, of_mask) = run(Options::default(), MaskSpec::Keep(keep));
            assert_close("context", &result, &expected, 1e-6);
            assert_all_close("gradient", &of_bias, &of_mask, 1e-5);
        }
    });
}

/// A key whose score is 0 is a key of zeros, beside sinks of 0, too.
#[test]
fn a_zero_key_is_a_key_of_zeros() {
    device::each_training(|device| {
        let sinks = Array::from_fn(&[HEADS], |at| (at[0] as f64 - 2.0) / 3.0);
        let zeros = |size| Array::full(&[1, KEY_HEADS, 1, size], 0.0);
        let run = |zero_key: bool, extra: Option<[Array; 2]>| {
            let options = Options {
                sinks: Some(sinks.clone()),
                zero_key,
                extra,
                ..Options::default()
            };
            let (leaves, vectors, options) = Call::new([5, 7], options, MaskSpec::None).on(device);
            let [q, k, v] = [0, 1, 2].map(|n: usize| leaves[n].clone());
            let context = dot_product_attention(q, k, v, &options);
            let result = Array::read(context.clone());
            let mut all = gradients(context, &leaves[..3], &vectors[1..]);
            all.push(result);
            all
        };
        let by_key = run(false, Some([zeros(SIZE), zeros(VALUE_SIZE)]));
        assert_all_close("a zero key", &run(true, None), &by_key, 1e-5);
    });
}

/// Further keys are compared as a score compares keys: a Gaussian one subtracts their norm.
#[test]
fn further_keys_have_the_bias_of_keys() {
    device::each(|device| {
        let attention = Attention::new(GaussianScoreConfig::new().init(device), 0.0);
        let rows = |seed, len| Array::draw(seed, &[BATCH, HEADS, len, 4]).f32::<4>(device);
        let [queries, keys, values] = [rows(1, 5), rows(2, 7), rows(3, 7)];
        let extra = [rows(4, 2), rows(5, 2)];
        let joined = [(&keys, &extra[0]), (&values, &extra[1])]
            .map(|(own, extra)| Tensor::cat(vec![own.clone(), extra.clone()], 2));
        let [all_keys, all_values] = joined;
        let expected = attention.forward(queries.clone(), all_keys, all_values, Mask::none());
        let options = AttentionOptions {
            extra_keys: Some(extra),
            ..Default::default()
        };
        let (q, k, v) = (queries.clone(), keys.clone(), values.clone());
        let fused = attention.forward(q, k, v, &options);
        let steps = attention.forward_with_weights(queries.clone(), keys.clone(), values, &options);
        assert_close("fused", fused, expected.clone(), 1e-5);
        assert_close("with weights", steps.context, expected, 1e-5);
        // No key of its own, and a mask that would hide the further ones.
        let none = Tensor::<4>::zeros([BATCH, HEADS, 0, 4], device);
        let options = AttentionOptions {
            mask: Mask::causal(),
            ..options
        };
        let context = attention.forward(queries.clone(), none.clone(), none, &options);
        let [keys, values] = options.extra_keys.expect("there are some");
        let expected = attention.forward(queries, keys, values, Mask::none());
        assert_close("alone", context, expected, 1e-5);
    });
}
