//! Sums over many steps or keys in half precision, whose terms are below the rounding of the sum.

use attention_core::functional::weight_of_no_key;
use attention_core::score::{AdditiveScoreConfig, Kernel, KernelScoreConfig};
use attention_core::stateful::{
    CoverageAttentionConfig, ForwardAttentionConfig, LocationAttentionConfig, LocationFeatures,
    LocationState, MonotonicAttentionConfig, StatefulAttention, expected_alignment,
};
use attention_core::{Attention, Mask, Memory, Normalizer, ScoringFunction};
use attention_tests::heads::On;
use attention_tests::{Array, assert_close, device, parameters};
use burn::module::Module;
use burn::tensor::{DType, Tensor};

/// Runs a test in f16 and bf16, without autodiff.
fn in_half(test: impl Fn(On)) {
    device::each(device::in_half_types(test));
}

fn ones((device, dtype): On, rows: usize, size: usize) -> Tensor<3> {
    Tensor::ones([1, rows, size], (device, dtype))
}

/// The state after `steps` steps over `num_keys` equal keys.
fn walked<A: StatefulAttention>(attention: A, [num_keys, steps]: [usize; 2], on: On) -> A::State {
    let attention = parameters::cast(attention.no_grad(), on.1);
    let keys = ones(on, num_keys, 5);
    let memory = attention.prepare(keys.clone(), keys, Mask::none());
    let first = attention.initial_state(&memory);
    (0..steps).fold(first, |state, _| {
        let (output, state) = attention.step_with_weights(ones(on, 1, 3), &memory, state);
        assert_eq!([output.context.dtype(), output.weights.dtype()], [on.1; 2]);
        state
    })
}

#[track_caller]
fn near<const D: usize>(what: &str, got: Tensor<D>, expected: f64) {
    let got = Array::read(got);
    let expected = Array::full(&got.shape, expected);
    assert_close(what, &got, &expected, 5e-3);
}

#[test]
fn coverage_and_its_loss_grow_with_every_step() {
    in_half(|on| {
        let attention = CoverageAttentionConfig::new(3, 5, 4).init(on.0);
        let state = walked(attention, [1000, 1000], on);
        near("coverage", state.coverage, 1.0);
        near("loss", state.loss, 999.0);
    });
}

#[test]
fn cumulative_weights_grow_with_every_step() {
    in_half(|on| {
        let config = LocationAttentionConfig::new(3, 5, 4).with_kernel_size(3);
        let config = config.with_features(LocationFeatures::Cumulative);
        let attention = parameters::changed(config.init(on.0), |path, value| match path {
            // At the ends a filter sees less.
            "location.weight" => value.map(|_| 0.0),
            _ => value,
        });
        let state: LocationState = walked(attention, [700, 600], on);
        near("cumulative", state.cumulative, 600.0 / 700.0);
    });
}

/// The walk of 3,000 keys is one of f32; what is handed on is not rounded.
#[test]
fn walks_over_many_keys() {
    in_half(|on @ (device, dtype)| {
        let p = Array::full(&[1, 3000], 9e-4).tensor::<2>(device, dtype);
        let exact = Array::read(p.clone()).data[0];
        let first = Array::from_fn(&[1, 3000], |at| f64::from(at[1] == 0));
        let weights = expected_alignment(p, first.tensor(device, dtype));
        assert_eq!(weights.dtype(), dtype);
        let expected = 1.0 - (1.0 - exact).powi(3000);
        let sum: f64 = Array::read(weights).data.iter().sum();
        assert!((sum - expected).abs() < 2e-3, "{dtype:?}: {sum}");

        // Of steps at equal keys, each passes on all but a share that underflows f16.
        let monotonic = MonotonicAttentionConfig::new().with_offset(-18.0);
        let score = AdditiveScoreConfig::new(3, 5, 4).init(device);
        let attention = monotonic.init_with(score, device);
        let attention = parameters::changed(attention, |path, value| match path {
            "score.value.weight" => value.map(|_| 0.0),
            _ => value,
        });
        let attention = parameters::cast(attention.no_grad(), dtype);
        let keys = ones(on, 3, 5);
        let memory = attention.prepare(keys.clone(), keys, Mask::none());
        let start = attention.initial_state(&memory);
        let (_, state) = attention.step_soft(ones(on, 1, 3), &memory, start);
        let first = Array::read(state.previous).data[0];
        assert!((first / (-18f64).exp() - 1.0).abs() < 1e-2, "{first}");
    });
}

/// The weight of the first key halves in each step.
#[test]
fn forward_attention_keeps_small_weights() {
    in_half(|on| {
        let inner = AdditiveScoreConfig::new(3, 5, 4).init(on.0);
        let attention = ForwardAttentionConfig::new().init(Attention::new(inner, 0.0));
        let state = walked(attention, [31, 30], on);
        let first = Array::read(state.weights).data[0];
        assert!((first * 2f64.powi(30) - 1.0).abs() < 1e-2, "{first}");
    });
}

/// A state in the type of the memory is taken, too.
#[test]
fn a_state_in_half_precision_is_taken() {
    in_half(|on| {
        let attention = CoverageAttentionConfig::new(3, 5, 4).init(on.0);
        let attention = parameters::cast(attention.no_grad(), on.1);
        let memory = attention.prepare(ones(on, 7, 5), ones(on, 7, 5), Mask::none());
        let mut state = attention.initial_state(&memory);
        assert_eq!(state.coverage.dtype(), DType::F32);
        state.coverage = state.coverage.cast(on.1);
        state.loss = state.loss.cast(on.1);
        let (_, state) = attention.step(ones(on, 1, 3), &memory, state);
        near("coverage", state.coverage, 1.0 / 7.0);
    });
}

#[test]
fn lengths_and_shares_are_of_f32() {
    in_half(|(device, dtype)| {
        // A direction whose length is 500, as that of 1 is.
        let additive = AdditiveScoreConfig::new(3, 3, 4).with_normalize(true);
        let weight = |length: f64| {
            let score = parameters::changed(additive.init(device), |path, value| match path {
                "value.weight" => value.map(|_| length / 2.0),
                _ => Array::draw(3, &value.shape).map(|x| x / 4.0),
            });
            let score = parameters::cast(score.no_grad(), dtype);
            let rows = Array::draw(4, &[1, 1, 7, 3]).tensor::<4>(device, dtype);
            let attention = Attention::new(score, 0.0);
            Array::read(attention.forward(rows.clone(), rows.clone(), rows, Mask::none()))
        };
        let [long, unit] = [500.0, 1.0].map(weight);
        assert_close("lengths", &long, &unit, device::epsilon(dtype));

        // Gates of e^-20 are 0 in f16, and their shares are not.
        let scores = Array::new(&[1, 1, 1, 2], [-20.0, -20.0]).tensor::<4>(device, dtype);
        let shares = Normalizer::NormalizedSigmoid.weights(scores, &Mask::none());
        near("shares", shares, 0.5);

        // Seven widths out a Gaussian kernel is below f16.
        let kernel = KernelScoreConfig::new(Kernel::Gaussian).init();
        let smoothing = Attention::new(kernel, 0.0).with_normalizer(Normalizer::SumNormalized);
        let rows = |x| Array::full(&[1, 1, 1, 1], x).tensor::<4>(device, dtype);
        let context = smoothing.forward(rows(7.0), rows(0.0), rows(3.0), Mask::none());
        near("smoothed", context, 3.0);

        // 1,000 weights of 1/1024 each.
        let weights = Tensor::<3>::full([1, 1, 1000], 1.0 / 1024.0, (device, dtype));
        near("no key", weight_of_no_key(weights) * 1024.0, 24.0);
    });
}

const STEPS: usize = 500;

/// The gradients of keys and values that many steps read: as the gradients of f32, but for rounded inputs.
fn gradients<S: ScoringFunction>(
    attention: &Attention<S>,
    step: impl Fn(&Attention<S>, Tensor<4>, &Memory) -> Tensor<4>,
    (device, dtype): On,
) -> [Array; 2] {
    let attention = parameters::cast(attention.clone(), dtype);
    let draw = |seed, shape: [usize; 4]| Array::draw(seed, &shape).tensor::<4>(device, dtype);
    let [keys, values] = [1, 2].map(|seed| draw(seed, [1, 1, 3, 5]).require_grad());
    // Computed, as the states of an encoder are.
    let memory = attention.prepare(keys.clone() * 0.5, values.clone() * 0.5, Mask::none());
    let query = draw(3, [1, 1, 1, 5]);
    let losses = (0..STEPS).map(|_| {
        let context = step(&attention, query.clone(), &memory);
        context.cast(DType::F32).sum()
    });
    let loss = losses.reduce(|a, b| a + b).unwrap();
    let gradients = loss.backward();
    [keys, values].map(|leaf| parameters::gradient(&leaf, Some(&gradients)))
}

#[test]
fn gradients_of_a_memory_are_added_in_f32() {
    device::each_training(|device| {
        let score = AdditiveScoreConfig::new(5, 5, 4).init(device);
        let score = parameters::changed(score, |_, value| Array::draw(7, &value.shape));
        let attention = Attention::new(score, 0.0);
        for with_weights in [false, true] {
            let step = |of: &Attention<_>, query, memory: &Memory| match with_weights {
                true => of.attend_with_weights(query, memory, Mask::none()).context,
                false => of.attend(query, memory, Mask::none()),
            };
            let run = |dtype| gradients(&attention, step, (device, dtype));
            let expected = run(DType::F32);
            for dtype in device::half_types(device) {
                let got = run(dtype);
                for (name, at) in [("keys", 0), ("values", 1)] {
                    let what = format!("{name}, {dtype:?}, with weights: {with_weights}");
                    let tolerance = 8.0 * device::epsilon(dtype);
                    assert_close(what, &got[at], &expected[at], tolerance);
                }
            }
        }
    });
}
