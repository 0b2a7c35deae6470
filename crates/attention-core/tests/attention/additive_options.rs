//! Additive attention with bias and normalised weight, and concat attention: parameters, records, bad input.

use attention_core::score::{AdditiveScoreConfig, ConcatScoreConfig};
use attention_core::{AdditiveAttentionConfig, Attention, Mask, ScoringFunction};
use attention_tests::{Array, assert_close, assert_same, assert_says, device, panic_message};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

fn inputs(sizes: [usize; 2], device: &Device) -> [Tensor<3>; 2] {
    [
        Array::draw(1, &[2, 3, sizes[0]]).f32(device),
        Array::draw(2, &[2, 4, sizes[1]]).f32(device),
    ]
}

fn context<S: ScoringFunction>(attention: &Attention<S>, device: &Device) -> Array {
    let [queries, keys] = inputs([3, 5], device);
    Array::read(attention.forward(queries, keys.clone(), keys, Mask::none()))
}

fn config() -> AdditiveAttentionConfig {
    AdditiveAttentionConfig::new(3, 5, 16)
}

#[test]
fn new_parameters_are_those_of_the_configuration() {
    device::each(|device| {
        let normalised = config().with_normalize(true).init(device).score;
        let gain = Array::read(normalised.gain.as_ref().unwrap().val());
        assert_eq!(gain, Array::full(&[1], 0.25));
        let bias = Array::read(normalised.query.bias.as_ref().unwrap().val());
        assert_eq!(bias, Array::full(&[16], 0.0));
        assert_eq!(normalised.num_params(), (3 + 1 + 5 + 1) * 16 + 1);

        let biased = config().with_bias(true).init(device).score;
        assert_eq!(biased.num_params(), (3 + 1 + 5 + 1) * 16);
        assert_eq!(config().init(device).score.num_params(), (3 + 5 + 1) * 16);
        let concat = ConcatScoreConfig::new(3, 5, 16);
        assert_eq!(concat.init(device).num_params(), (3 + 5 + 1) * 16);
        let biased = concat.with_bias(true).init(device);
        assert_eq!(biased.num_params(), (3 + 5 + 1 + 1) * 16);
    });
}

#[test]
fn only_the_direction_of_a_normalised_weight_counts() {
    device::each(|device| {
        let attention = config().with_normalize(true).init(device);
        let expected = context(&attention, device);
        let mut scaled = attention.clone();
        let value = &mut scaled.score.value;
        value.weight = Param::from_tensor(value.weight.val() * 8.0);
        assert_close("scaled", &context(&scaled, device), &expected, 1e-6);
        scaled.score.gain = Some(Param::from_tensor(Array::full(&[1], -2.0).f32(device)));
        assert_ne!(context(&scaled, device), expected, "the gain does nothing");
    });
}

/// Additive scores as they were before they had options.
#[derive(Module, Debug)]
struct Before {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[test]
fn records_load_where_their_parameters_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    device::each_both_ways(|device| {
        let (biased, normalised) = (config().with_bias(true), config().with_normalize(true));
        let configs = [config(), biased, normalised];
        for config in &configs {
            let saved = config.init(device);
            let path = folder.path().join("attention");
            saved.clone().save_file(&path).unwrap();
            let loaded = config.init(device).try_load_file(&path).unwrap();
            let [loaded, saved] = [&loaded, &saved].map(|of| context(of, device));
            assert_same("loaded", &loaded, &saved);
        }

        let concat = ConcatScoreConfig::new(3, 5, 16).with_bias(true);
        let saved = Attention::new(concat.init(device), 0.0);
        let path = folder.path().join("concat");
        saved.clone().save_file(&path).unwrap();
        let other = Attention::new(concat.init(device), 0.0);
        let loaded = other.try_load_file(&path).unwrap();
        let [loaded, saved] = [&loaded, &saved].map(|of| context(of, device));
        assert_same("concat", &loaded, &saved);

        let plain = config().init(device);
        let expected = context(&plain, device);
        let score = plain.score;
        let (query, key, value) = (score.query, score.key, score.value);
        let path = folder.path().join("before");
        Before { query, key, value }.save_file(&path).unwrap();
        let score = AdditiveScoreConfig::new(3, 5, 16).init(device);
        let loaded = Attention::new(score.try_load_file(&path).unwrap(), 0.0);
        assert_same("before", &context(&loaded, device), &expected);
        // A parameter that the record lacks is not made up, and one too many is not left out.
        let normalised = config().with_normalize(true).init(device);
        let more = path.with_extension("more");
        normalised.score.save_file(&more).unwrap();
        let score = AdditiveScoreConfig::new(3, 5, 16).init(device);
        assert_says(score.try_load_file(&more).unwrap_err(), "gain");
        for config in &configs[1..] {
            let error = config.init(device).score.try_load_file(&path).unwrap_err();
            assert_says(error, "bias");
        }
    });
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let device = &device::plain()[0];
    let expected = ["query_size", "key_size", "num_hiddens"];
    for (at, name) in expected.into_iter().enumerate() {
        let mut sizes = [3, 5, 7];
        sizes[at] = 0;
        let [q, k, h] = sizes;
        let expected = format!("{name} expected at least 1, got 0");
        let message = panic_message(|| ConcatScoreConfig::new(q, k, h).init(device));
        assert_eq!(message, format!("ConcatScoreConfig: {expected}"));
        let additive = AdditiveScoreConfig::new(q, k, h).with_normalize(true);
        let message = panic_message(|| additive.init(device));
        assert_eq!(message, format!("AdditiveScoreConfig: {expected}"));
    }
    let attention = Attention::new(ConcatScoreConfig::new(3, 5, 7).init(device), 0.0);
    let additive = config().init(device);
    for sizes in [[4, 5], [3, 4], [5, 3]] {
        let [queries, keys] = inputs(sizes, device);
        let mask = Mask::none();
        let messages = [
            panic_message(|| attention.forward(queries.clone(), keys.clone(), keys.clone(), &mask)),
            panic_message(|| additive.forward(queries.clone(), keys.clone(), keys.clone(), &mask)),
        ];
        // Keys are projected first.
        let wrong = if sizes[1] == 5 { [4, 3] } else { [sizes[1], 5] };
        let [one, other] = wrong.map(|size| size.to_string());
        for message in messages {
            assert_says(message, [&*one, &*other]);
        }
    }
}
