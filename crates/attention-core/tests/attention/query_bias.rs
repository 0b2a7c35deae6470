//! The term of a query that softmax ignores counts wherever something else than softmax reads the scores.

use attention_core::functional::{AttentionOptions, RowOfScores, ScoreMod};
use attention_core::score::{
    DotProductScoreConfig, GaussianScore, GaussianScoreConfig, ScoreKernel,
};
use attention_core::{
    Attention, ExtraKeys, KeyValueCache, Mask, NewRows, Normalizer, ScoringFunction,
};
use attention_tests::{Array, assert_close, device};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

fn gaussian(device: &Device) -> Attention<GaussianScore> {
    Attention::new(GaussianScoreConfig::new().init(device), 0.0)
}

/// `score^2 / 4`
#[derive(Debug)]
struct Squared;

impl ScoreMod for Squared {
    fn modify(&self, scores: &mut [f32], _: RowOfScores) {
        scores.iter_mut().for_each(|score| *score *= *score / 4.0);
    }

    fn gradient(&self, scores: &[f32], gradients: &mut [f32], _: RowOfScores) {
        let both = gradients.iter_mut().zip(scores);
        both.for_each(|(gradient, score)| *gradient *= score / 2.0);
    }
}

fn rows(seed: u64, number: usize, device: &Device) -> Tensor<4> {
    Array::draw(seed, &[2, 3, number, 4]).f32(device)
}

/// The context by plain loops; `others` are the scores of keys without a value.
fn plain(device: &Device, change: fn(f64) -> f64, others: &[f64]) -> Array {
    let [queries, keys, values] =
        [(1, 5), (2, 7), (3, 7)].map(|(seed, number)| Array::read(rows(seed, number, device)));
    Array::from_fn(&queries.shape, |at| {
        let [b, h, i, _] = at[..] else { unreachable!() };
        let score = |j: usize| {
            let differences = (0..4).map(|n| queries.at(&[b, h, i, n]) - keys.at(&[b, h, j, n]));
            change(-differences.map(|x| x * x).sum::<f64>() / 2.0)
        };
        let powers: Vec<f64> = (0..7).map(|j| score(j).exp()).collect();
        let total: f64 = powers
            .iter()
            .chain(&others.iter().map(|x| x.exp()).collect::<Vec<_>>())
            .sum();
        let all = powers.iter().enumerate();
        all.map(|(j, power)| power / total * values.at(&[b, h, j, at[3]]))
            .sum()
    })
}

#[test]
fn beside_sinks_and_under_a_score_mod() {
    device::each(|device| {
        let sinks = Tensor::<1>::from_floats([0.5; 3], device);
        let with_sinks = AttentionOptions {
            sinks: Some(sinks),
            ..Default::default()
        };
        let zero_key = AttentionOptions {
            zero_key: true,
            ..Default::default()
        };
        let squared = AttentionOptions::default().with_score_mod(Squared);
        let as_it_is = |score: f64| score;
        for (what, options, expected) in [
            ("sinks", with_sinks, plain(device, as_it_is, &[0.5])),
            ("a zero key", zero_key, plain(device, as_it_is, &[0.0])),
            (
                "a score_mod",
                squared,
                plain(device, |score| score * score / 4.0, &[]),
            ),
        ] {
            let attention = gaussian(device);
            let [q, k, v] = [(1, 5), (2, 7), (3, 7)].map(|(seed, n)| rows(seed, n, device));
            let context = attention.forward(q.clone(), k.clone(), v.clone(), &options);
            assert_close(what, context, &expected, 1e-5);
            let output = attention.forward_with_weights(q.clone(), k.clone(), v.clone(), &options);
            assert_close(format!("{what}, weights"), output.context, &expected, 1e-5);
            let memory = attention.prepare(k, v, Mask::none());
            let context = attention.attend(q, &memory, &options);
            assert_close(format!("{what}, prepared"), context, &expected, 1e-5);
        }
    });
}

/// A score with a term of each query, and none of keys.
#[derive(Module, Debug)]
struct OfQueries {}

impl ScoringFunction for OfQueries {
    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: Some(1.0) }
    }

    fn query_bias(&self, queries: &Tensor<4>) -> Option<Tensor<4>> {
        Some(queries.clone().sum_dim(3))
    }
}

#[test]
fn without_a_bias_of_keys() {
    device::each(|device| {
        let [q, k, v] = [(1, 5), (2, 7), (3, 7)].map(|(seed, n)| rows(seed, n, device));
        let attention = Attention::new(OfQueries {}, 0.0).with_zero_key();
        let output = attention.forward_with_weights(q.clone(), k.clone(), v.clone(), Mask::none());
        let context = attention.forward(q.clone(), k.clone(), v.clone(), Mask::none());
        assert_close("fused", context.clone(), &Array::read(output.context), 1e-5);
        let without = Attention::new(
            DotProductScoreConfig::new().with_scale(Some(1.0)).init(),
            0.0,
        );
        let without = without.with_zero_key().forward(q, k, v, Mask::none());
        assert_ne!(Array::read(context), Array::read(without));
    });
}

/// Extra keys and sinks together are so many more keys, of which one has no value.
#[test]
fn beside_extra_keys_and_a_sink() {
    device::each(|device| {
        let [q, k, v] = [(1, 5), (2, 7), (3, 7)].map(|(seed, n)| rows(seed, n, device));
        let extra = ExtraKeys::new(3, 2, [4, 4], device);
        let [of_keys, of_values] = [&extra.keys, &extra.values].map(|extra| {
            let extra: Tensor<4> = extra.val().unsqueeze();
            extra.expand([2, 3, 2, 4])
        });
        let options = AttentionOptions {
            zero_key: true,
            ..Default::default()
        };
        let [keys, values] = [(k.clone(), of_keys), (v.clone(), of_values)]
            .map(|(own, extra)| Tensor::cat(vec![own, extra], 2));
        let expected = gaussian(device).forward(q.clone(), keys, values, &options);
        let mut attention = gaussian(device);
        attention.extra_keys = Some(extra);
        let context = attention.forward(q.clone(), k.clone(), v.clone(), &options);
        assert_close("fused", context, &Array::read(expected.clone()), 1e-5);
        let output = attention.forward_with_weights(q, k, v, &options);
        assert_close("composed", output.context, &Array::read(expected), 1e-5);
    });
}

#[test]
fn by_other_normalizers_with_a_soft_cap_and_in_a_cache() {
    device::each(|device| {
        for normalizer in [Normalizer::Sigmoid, Normalizer::NormalizedSigmoid] {
            let attention = gaussian(device).with_normalizer(normalizer);
            let text = rows(1, 3, device);
            let far = AttentionOptions {
                mask: Mask::causal(),
                soft_cap: Some(1e6),
                ..Default::default()
            };
            let forward = |options: AttentionOptions| {
                attention.forward(text.clone(), text.clone(), text.clone(), options)
            };
            let expected = Array::read(forward(Mask::causal().into()));
            assert_close("a soft-cap", forward(far), &expected, 1e-3);
            let mut cache = KeyValueCache::new();
            let lens = NewRows::First(&[2, 3]);
            let [q, k, v] = [text.clone(), text.clone(), text.clone()];
            let cached = attention.forward_cached(q, k, v, lens, &mut cache, Mask::none());
            let of_whole = |all: Tensor<4>| all.narrow(0, 1, 1);
            let expected = of_whole(forward(Mask::causal().into()));
            assert_close("cached", of_whole(cached), &Array::read(expected), 1e-5);
        }
    });
}
