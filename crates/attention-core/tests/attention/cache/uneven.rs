//! Examples of different lengths with biases of keys, extra keys, and calls without tokens.

use attention_core::functional::AttentionOptions;
use attention_core::position::{PositionBias, RelativePositionBiasConfig};
use attention_core::score::{Biased, DotProductScoreConfig, PositionTerm, ScoreKernel};
use attention_core::{
    AdditiveAttentionConfig, Attention, DotProductScore, KeyValueCache, Mask, NewRows,
    ScoringFunction,
};
use attention_tests::{Array, assert_close, assert_zero, device};
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};

fn text(seed: u64, rows: usize, device: &Device) -> Tensor<3> {
    Array::draw(seed, &[2, rows, 4]).f32(device)
}

fn dot() -> DotProductScore {
    DotProductScoreConfig::new().init()
}

/// `-j^2 / 10`, wherever the query stands.
#[derive(Module, Debug)]
struct OfKeys {}

impl PositionBias for OfKeys {
    fn bias(&self, rows: usize, keys: usize, device: &Device, dtype: DType) -> Tensor<4> {
        let bias = Array::from_fn(&[1, 1, rows, keys], |at| -((at[3] * at[3]) as f64) / 10.0);
        bias.tensor(device, dtype)
    }
}

/// 3 for key 0.
#[derive(Module, Debug)]
struct FirstKey {}

impl ScoringFunction for FirstKey {
    fn compares_as_given(&self) -> bool {
        true
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: None }
    }

    fn position_term(&self, _: usize, keys: usize, device: &Device, dtype: DType) -> PositionTerm {
        let bias = Array::from_fn(&[1, 1, 1, keys], |at| if at[3] == 0 { 3.0 } else { 0.0 });
        PositionTerm::PerKey(bias.tensor(device, dtype))
    }
}

/// Prompts of 2 and 5 tokens, then 1 and 2 each, are what each text gives alone.
fn is_the_text_alone<S: ScoringFunction>(what: &str, score: S, device: &Device) {
    let attention = Attention::new(score, 0.0);
    let parts = [
        (text(1, 5, device), vec![2, 5]),
        (text(2, 1, device), vec![1, 1]),
        (text(3, 2, device), vec![2, 2]),
    ];
    let mut cache = KeyValueCache::new();
    let of_calls = parts.each_ref().map(|(part, lens)| {
        let [q, k, v] = [part.clone(), part.clone(), part.clone()];
        attention.forward_cached(q, k, v, NewRows::First(lens), &mut cache, Mask::none())
    });
    for b in 0..2 {
        let of_example =
            |all: &Tensor<3>, len: usize| all.clone().narrow(0, b, 1).narrow(1, 0, len);
        let whole = parts.iter().map(|(part, lens)| of_example(part, lens[b]));
        let whole = Tensor::cat(whole.collect(), 1);
        let expected = attention.forward(whole.clone(), whole.clone(), whole, Mask::causal());
        let cached = of_calls.iter().zip(&parts);
        let cached = cached.map(|(context, (_, lens))| of_example(context, lens[b]));
        let cached = Tensor::cat(cached.collect(), 1);
        assert_close(format!("{what}, {b}"), cached, &Array::read(expected), 1e-5);
    }
}

#[test]
fn biases_of_keys_stay_at_their_keys() {
    device::each(|device| {
        is_the_text_alone("a position bias", Biased::new(dot(), OfKeys {}), device);
        is_the_text_alone("a term per key", FirstKey {}, device);
        let relative = RelativePositionBiasConfig::new(1).init(device);
        is_the_text_alone("distances", Biased::new(dot(), relative), device);
    });
}

#[test]
fn padding_reads_no_extra_keys() {
    device::each(|device| {
        let attention = Attention::new(dot(), 0.0);
        let extra = [4, 5].map(|seed| Array::draw(seed, &[1, 1, 2, 4]).f32::<4>(device));
        let options = AttentionOptions {
            extra_keys: Some(extra),
            ..Default::default()
        };
        let rows = text(1, 3, device);
        let mut cache = KeyValueCache::new();
        let [q, k, v] = [rows.clone(), rows.clone(), rows.clone()];
        let lens = NewRows::First(&[1, 3]);
        let output =
            attention.forward_cached_with_weights(q, k, v, lens, &mut cache, options.clone());
        let context = attention.forward_cached(
            rows.clone(),
            rows.clone(),
            rows.clone(),
            lens,
            &mut KeyValueCache::new(),
            options.clone(),
        );
        for (what, tensor) in [
            ("context", output.context),
            ("weights", output.weights),
            ("alone", context),
        ] {
            let padding = tensor.clone().narrow(0, 0, 1).narrow(1, 1, 2);
            assert_zero(what, padding);
            assert!(
                Array::read(tensor.narrow(0, 1, 1)).magnitude() > 0.1,
                "{what}"
            );
        }
    });
}

#[test]
fn a_first_call_without_tokens() {
    device::each(|device| {
        let attention = AdditiveAttentionConfig::new(4, 4, 8).init(device);
        for mut cache in [KeyValueCache::new(), KeyValueCache::with_capacity(5)] {
            let calls = [0, 2].map(|number| {
                let rows = text(6, number, device);
                let [q, k, v] = [rows.clone(), rows.clone(), rows];
                attention.forward_cached(q, k, v, NewRows::All, &mut cache, Mask::none())
            });
            assert_eq!(calls[0].dims(), [2, 0, 4]);
            let rows = text(6, 2, device);
            let expected = attention.forward(rows.clone(), rows.clone(), rows, Mask::causal());
            assert_close("the second", calls[1].clone(), &Array::read(expected), 1e-5);
        }
        // Between texts of different lengths.
        let bias = RelativePositionBiasConfig::new(1).init(device);
        let attention = Attention::new(Biased::new(dot(), bias), 0.0);
        let mut cache = KeyValueCache::new();
        for (rows, lens) in [(text(1, 1, device), [1, 0]), (text(1, 0, device), [0, 0])] {
            let dims = rows.dims();
            let [q, k, v] = [rows.clone(), rows.clone(), rows];
            let lens = NewRows::First(&lens);
            let context = attention.forward_cached(q, k, v, lens, &mut cache, Mask::none());
            assert_eq!(context.dims(), dims);
        }
    });
}
