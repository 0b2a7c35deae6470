//! Padding at the left: steps begin on the first key that is not masked, as the steps of the text alone do.

use attention_core::score::BilinearScoreConfig;
use attention_core::stateful::{
    CoverageAttentionConfig, ForwardAttentionConfig, LocationAttentionConfig, LocationFeatures,
    MonotonicAttentionConfig, Start, StatefulAttention,
};
use attention_core::{AdditiveAttentionConfig, Mask};
use attention_tests::{Array, assert_close, assert_zero, device};
use burn::tensor::{Device, Tensor};

const KEYS: usize = 7;
/// The padding of each example.
const PADDED: [usize; 3] = [3, 0, 5];
const STEPS: usize = 3;

/// The weights and contexts of three steps, beside the steps of each example by itself.
fn check<A: StatefulAttention>(what: &str, attention: &A, device: &Device) {
    let draw = |seed, rows, size| Array::draw(seed, &[3, rows, size]).f32::<3>(device);
    let (queries, keys, values) = (draw(1, STEPS, 3), draw(2, KEYS, 5), draw(3, KEYS, 4));
    let padding = Array::from_fn(&[3, KEYS], |at| f64::from(at[1] < PADDED[at[0]]));
    let run = |[queries, keys, values]: [Tensor<3>; 3], mask: Mask| {
        let memory = attention.prepare(keys, values, mask);
        let mut state = attention.initial_state(&memory);
        let steps = (0..STEPS).map(|at| {
            let query = queries.clone().narrow(1, at, 1);
            let (output, next) = attention.step_with_weights(query, &memory, state.clone());
            state = next;
            [output.weights, output.context].map(Array::read)
        });
        steps.collect::<Vec<_>>()
    };
    let inputs = [queries.clone(), keys.clone(), values.clone()];
    let padded = run(inputs, Mask::padding(padding.bool(device)));
    for (b, padding) in PADDED.into_iter().enumerate() {
        let own = |rows: &Tensor<3>| rows.clone().narrow(0, b, 1);
        let text = |rows: &Tensor<3>| own(rows).narrow(1, padding, KEYS - padding);
        let alone = run([own(&queries), text(&keys), text(&values)], Mask::none());
        for (at, (padded, alone)) in padded.iter().zip(&alone).enumerate() {
            let what = format!("{what}, example {b}, step {at}");
            let [weights, context] = padded;
            let of_keys = |first: usize, number| {
                Array::from_fn(&[1, 1, number], |at| weights.at(&[b, 0, first + at[2]]))
            };
            assert_zero(&what, &of_keys(0, padding));
            assert_close(&what, &of_keys(padding, KEYS - padding), &alone[0], 1e-5);
            let context = Array::from_fn(&[1, 1, 4], |at| context.at(&[b, 0, at[2]]));
            assert_close(&what, &context, &alone[1], 1e-5);
        }
    }
}

#[test]
fn steps_begin_on_the_first_key_that_is_not_masked() {
    device::each_both_ways(|device| {
        use Start::{First, Uniform, UniformInSum, Zeros};
        for start in [Zeros, Uniform, UniformInSum, First] {
            let coverage = CoverageAttentionConfig::new(3, 5, 8).with_start(start);
            let what = format!("coverage, {start:?}");
            check(&what, &coverage.init(device), device);
            let location = LocationAttentionConfig::new(3, 5, 8)
                .with_start(start)
                .with_kernel_size(3)
                .with_features(LocationFeatures::Both);
            let what = format!("location, {start:?}");
            check(&what, &location.init(device), device);
        }
        // Without noise a run can be repeated.
        let monotonic = MonotonicAttentionConfig::new().with_noise(0.0);
        let monotonic = monotonic.with_offset(0.0);
        let score = BilinearScoreConfig::new(3, 5).init(device);
        check("monotonic", &monotonic.init_with(score, device), device);
        let inner = AdditiveAttentionConfig::new(3, 5, 8).init(device);
        let forward = ForwardAttentionConfig::new();
        check("forward", &forward.init(inner.clone()), device);
        let forward = forward.with_rest(0.25).with_epsilon(0.01).with_floor(1e-3);
        check("forward with a rest", &forward.init(inner), device);
        let location = LocationAttentionConfig::new(3, 5, 8).with_start(Start::First);
        let around = ForwardAttentionConfig::new().init(location.init(device));
        check("forward around location", &around, device);
    });
}
