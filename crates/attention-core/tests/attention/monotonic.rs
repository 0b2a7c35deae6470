//! Monotonic attention: expected walks, hard walks, and when which is taken.

use attention_core::stateful::{
    MonotonicAttention, MonotonicAttentionConfig, MonotonicState, StatefulAttention,
    expected_alignment,
};
use attention_core::{AdditiveScore, AttentionOutput, Mask};
use attention_tests::{
    Array, MaskSpec, assert_close, assert_same, assert_zero, device, parameters,
};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

/// The definition: a walk over the keys, one after the other.
fn recursion(choose: &Array, previous: &Array) -> Array {
    let mut result = choose.clone();
    for b in 0..choose.shape[0] {
        let mut reach = 0.0;
        for j in 0..choose.shape[1] {
            reach += previous.at(&[b, j]);
            *result.at_mut(&[b, j]) = choose.at(&[b, j]) * reach;
            reach *= 1.0 - choose.at(&[b, j]);
        }
    }
    result
}

/// Probabilities of all kinds: a row each of ordinary, tiny, nearly sure, and mixed with sure ones.
fn probabilities(keys: usize) -> Array {
    let drawn = Array::draw(5, &[4, keys]);
    Array::from_fn(&[4, keys], |at| {
        let p = (drawn.at(at) + 2.0) / 4.0;
        match (at[0], at[1] % 7) {
            (0, _) => p,
            (1, _) => p * 1e-6,
            (2, _) => 1.0 - p * 1e-6,
            (_, 2) => 1.0,
            (_, 4) => 0.0,
            (_, 5) => 1.0 - 1e-12,
            _ => p * 1e-3,
        }
    })
}

/// Weights that sum to 1, on all keys.
fn spread(keys: usize) -> Array {
    let drawn = Array::draw(6, &[4, keys]).map(|number| number + 2.0);
    Array::from_fn(&[4, keys], |at| {
        let sum: f64 = (0..keys).map(|j| drawn.at(&[at[0], j])).sum();
        drawn.at(at) / sum
    })
}

#[test]
fn the_expected_alignment_is_that_of_the_recursion() {
    device::each(device::in_each_type(|(device, dtype)| {
        for keys in [1, 2, 3, 8, 13, 200] {
            let (choose, previous) = (probabilities(keys), spread(keys));
            let of = |array: &Array| array.tensor(device, dtype);
            let actual = expected_alignment(of(&choose), of(&previous));
            let expected = recursion(&choose, &previous);
            let tolerance = 4.0 * device::epsilon(dtype);
            let what = format!("{keys} keys, {dtype:?}");
            assert_close(&what, actual, &expected, tolerance);
        }
    }));
}

#[test]
fn its_gradients_are_those_of_the_recursion() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        // f32 differences would drown in rounding; the gradients of f32 must equal the gradients of f64.
        let keys = 40;
        let (choose, previous) = (probabilities(keys), spread(keys));
        let received = Array::draw(7, &[4, keys]);
        let p = choose.leaf::<2>(device, dtype);
        let a = previous.leaf::<2>(device, dtype);
        let loss = expected_alignment(p.clone(), a.clone()) * received.tensor(device, dtype);
        let gradients = loss.sum().backward();
        // The recursion is linear in each single probability, so a difference is exact.
        let derivative = |choose: &Array, previous: &Array, at: &[usize], of_p: bool| {
            let at_number = |number: f64| {
                let (mut choose, mut previous) = (choose.clone(), previous.clone());
                let array = if of_p { &mut choose } else { &mut previous };
                *array.at_mut(at) = number;
                recursion(&choose, &previous).dot(&received)
            };
            at_number(1.0) - at_number(0.0)
        };
        let tolerance = 1e3 * f64::EPSILON + 16.0 * device::epsilon(dtype);
        for (what, leaf, of_p) in [("choose", &p, true), ("previous", &a, false)] {
            let expected = |at: &[usize]| derivative(&choose, &previous, at, of_p);
            let expected = Array::from_fn(&choose.shape, expected);
            let actual = Array::read(leaf.grad(&gradients).unwrap());
            assert_close(what, &actual, &expected, tolerance);
        }
    }));
}

/// Attention to keys that say themselves whether to stop: the energy is the sign of a key times `gain`.
fn by_sign(gain: f64, device: &Device) -> MonotonicAttention<AdditiveScore> {
    let config = MonotonicAttentionConfig::new().with_offset(0.0);
    let mut attention = config.with_noise(0.0).init_additive(1, 1, 1, device);
    let number = |number: f64| Param::from_tensor(Tensor::<2>::full([1, 1], number, device));
    let score = &mut attention.score;
    score.query.weight = number(0.0);
    // Saturated: tanh(20) is 1.
    score.key.weight = number(20.0);
    score.value.weight = number(3.0);
    score.gain = Some(Param::from_tensor(Tensor::full([1], gain, device)));
    attention
}

/// Keys of the given signs, whose values are their positions, counted from 1.
fn signs(rows: [[f64; 6]; 2], device: &Device) -> (Tensor<3>, Tensor<3>) {
    let keys = Array::from_fn(&[2, 6, 1], |at| rows[at[0]][at[1]]);
    let values = Array::from_fn(&[2, 6, 1], |at| at[1] as f64 + 1.0);
    (keys.f32(device), values.f32(device))
}

const ROWS: [[f64; 6]; 2] = [
    [-1.0, -1.0, 1.0, -1.0, 1.0, 1.0],
    [-1.0, -1.0, -1.0, -1.0, -1.0, 1.0],
];

#[test]
fn a_hard_step_stops_at_the_first_key_that_will_do() {
    device::each_both_ways(|device| {
        let attention = by_sign(1.0, device);
        let (keys, values) = signs(ROWS, device);
        // The only key of the second example that would do is padding.
        let memory = attention.prepare(keys, values, MaskSpec::lens(&[6, 5]).mask(device));
        let query = || Tensor::<3>::zeros([2, 1, 1], device);
        let start = attention.initial_state(&memory);
        let (output, state) = attention.step_hard(query(), &memory, start);
        let weights = Array::read(output.weights);
        assert_eq!(weights.data[..6], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(weights.data[6..], [0.0; 6]);
        assert_eq!(Array::read(output.context).data, [3.0, 0.0]);
        // It stays there, and what passed the last key does not return.
        let (output, state) = attention.step_hard(query(), &memory, state);
        assert_eq!(Array::read(output.context).data, [3.0, 0.0]);

        // From a later key on.
        let later = Array::from_fn(&[2, 6], |at| f64::from(at[1] == 3));
        let previous = later.f32::<2>(device);
        assert_eq!(state.previous.dims(), previous.dims());
        let state = MonotonicState { previous };
        let (output, _) = attention.step_hard(query(), &memory, state);
        assert_eq!(Array::read(output.context).data, [5.0, 0.0]);
    });
}

#[test]
fn the_hard_step_is_the_limit_of_the_soft_one() {
    device::each_training(|device| {
        let (keys, values) = signs(ROWS, device);
        let query = || Tensor::<3>::zeros([2, 1, 1], device);
        let mut distance = f64::INFINITY;
        for gain in [2.0, 6.0, 40.0] {
            let attention = by_sign(gain, device);
            let memory = attention.prepare(keys.clone(), values.clone(), Mask::none());
            let start = || attention.initial_state(&memory);
            let (soft, _) = attention.step_soft(query(), &memory, start());
            let (hard, _) = attention.step_hard(query(), &memory, start());
            let difference = Array::read(soft.weights - hard.weights).magnitude();
            assert!(difference < distance / 3.0, "gain {gain}: {difference}");
            distance = difference;
        }
        assert!(distance < 1e-6, "{distance}");
    });
}

/// One step of new attention with much noise.
fn noisy(device: &Device) -> (MonotonicAttention<AdditiveScore>, Tensor<3>, Tensor<3>) {
    let config = MonotonicAttentionConfig::new().with_offset(-1.0);
    let attention = config.with_noise(2.0).init_additive(3, 5, 8, device);
    let keys = Array::draw(2, &[2, 6, 5]).f32::<3>(device);
    let query = Array::draw(1, &[2, 1, 3]).f32::<3>(device);
    (attention, keys, query)
}

#[test]
fn steps_are_soft_with_noise_while_training_and_hard_otherwise() {
    device::each_training(|device| {
        let (attention, keys, query) = noisy(device);
        let step = |attention: &MonotonicAttention<_>| {
            let memory = attention.prepare(keys.clone(), keys.clone(), Mask::none());
            let start = attention.initial_state(&memory);
            let (output, _) = attention.step_with_weights(query.clone(), &memory, start);
            Array::read(output.weights)
        };
        let range = 1e-6..1.0 - 1e-6;
        let between = |weights: &Array| weights.data.iter().any(|it| range.contains(it));
        let (one, other) = (step(&attention), step(&attention));
        assert!(between(&one), "{one:?}");
        assert_ne!(one, other, "the noise is the same");

        let frozen = attention.freeze();
        let hard = step(&frozen);
        assert!(!between(&hard), "{hard:?}");
        // The explicit soft step is repeatable there.
        let soft = || {
            let memory = frozen.prepare(keys.clone(), keys.clone(), Mask::none());
            let start = frozen.initial_state(&memory);
            Array::read(frozen.step_soft(query.clone(), &memory, start).0.weights)
        };
        assert!(between(&soft()), "{:?}", soft());
        assert_same("soft", &soft(), &soft());
    });
    device::each(|device| {
        let (attention, keys, query) = noisy(device);
        let memory = attention.prepare(keys.clone(), keys, Mask::none());
        let start = || attention.initial_state(&memory);
        let step = attention.step_with_weights(query.clone(), &memory, start());
        let hard = attention.step_hard(query, &memory, start());
        assert_same("a device without gradients", step.0.weights, hard.0.weights);
    });
}

#[test]
fn a_hard_step_has_the_gradients_of_its_value_only() {
    device::each_training(|device| {
        let attention = by_sign(1.0, device);
        let (keys, values) = signs(ROWS, device);
        let values = values.require_grad();
        let memory = attention.prepare(keys, values.clone(), Mask::none());
        let query = Tensor::<3>::zeros([2, 1, 1], device);
        let (output, _) = attention.step_hard(query, &memory, attention.initial_state(&memory));
        let gradients = output.context.sum().backward();
        let of_values = Array::read(values.grad(&gradients).unwrap());
        let chosen = Array::from_fn(&[2, 6, 1], |at| f64::from(at[1] == [2, 5][at[0]]));
        assert_same("values", &of_values, &chosen);
        let gain = attention.score.gain.as_ref().unwrap().val();
        assert_zero("gain", &parameters::gradient(&gain, Some(&gradients)));
    });
}

#[test]
fn only_the_direction_of_v_counts() {
    device::each(|device| {
        let (mut attention, keys, query) = noisy(device);
        let run = |attention: &MonotonicAttention<_>| {
            let memory = attention.prepare(keys.clone(), keys.clone(), Mask::none());
            let start = attention.initial_state(&memory);
            Array::read(attention.step_soft(query.clone(), &memory, start).0.weights)
        };
        let expected = run(&attention);
        let weight = attention.score.value.weight.clone();
        attention.score.value.weight = weight.map(|weight| weight * 7.0);
        assert_close("v", &run(&attention), &expected, 1e-5);
        let gain = attention.score.gain.take();
        attention.score.gain = gain.map(|gain| gain.map(|gain| gain * 7.0));
        assert_ne!(run(&attention), expected);
    });
}

#[test]
fn steps_are_soft_if_one_of_their_tensors_trains() {
    device::each_training(|training| {
        let plain = &training.clone().inner();
        for part in "parameters offset query keys values state none".split(' ') {
            let on = |of: &str| if part == of { training } else { plain };
            let (mut attention, keys, query) = noisy(on("parameters"));
            attention.noise = 0.0;
            attention.offset = Param::from_tensor(Tensor::full([1], -1.0, on("offset")));
            let moved = |tensor: Tensor<3>, of| Array::read(tensor).f32::<3>(on(of));
            let (query, values) = (moved(query, "query"), moved(keys.clone(), "values"));
            let memory = attention.prepare(moved(keys, "keys"), values, Mask::none());
            let mut start = attention.initial_state(&memory);
            if part == "state" {
                start.previous = start.previous.autodiff();
            }
            let start = || start.clone();
            let weights = |(output, _): (AttentionOutput<3>, _)| Array::read(output.weights);
            let step = weights(attention.step_with_weights(query.clone(), &memory, start()));
            let soft = weights(attention.step_soft(query.clone(), &memory, start()));
            let hard = weights(attention.step_hard(query.clone(), &memory, start()));
            assert_ne!(soft, hard);
            assert_same(part, &step, if part == "none" { &hard } else { &soft });

            // Noise comes where the step is soft.
            attention.noise = 2.0;
            let soft = || weights(attention.step_soft(query.clone(), &memory, start()));
            assert_eq!(soft() != soft(), part != "none", "{part}");
        }
    });
}

#[test]
fn a_plain_query_trains_the_parameters() {
    device::each_training(|device| {
        let (attention, keys, query) = noisy(device);
        let [keys, query] = [keys, query].map(Tensor::inner);
        let memory = attention.prepare(keys.clone(), keys, Mask::none());
        let (context, _) = attention.step(query, &memory, attention.initial_state(&memory));
        let gradients = context.sum().backward();
        let gradient = attention.offset.val().grad(&gradients).unwrap();
        assert!(Array::read(gradient).magnitude() > 0.0);
    });
}
