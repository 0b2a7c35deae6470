//! Dropout on the weights. `Device::seed` belongs to the process: this is a program of its own, and its tests hold a
//! lock.
#![allow(clippy::unwrap_used)]

mod some_tensors_train;

use std::sync::{Mutex, MutexGuard, PoisonError};

use attention_core::{Attention, DotProductAttentionConfig, Mask, ScoringFunction};
use attention_tests::{
    Array, Check, MaskSpec, Problem, SIZES, Sizes, assert_close, assert_same, check, device,
};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

static SEED: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    SEED.lock().unwrap_or_else(PoisonError::into_inner)
}

const PROBABILITY: f64 = 0.3;

/// Values are the rows of the identity, so that the context is the dropped weights.
const SQUARE: Sizes = SIZES
    .with_batch(2)
    .with_heads(3)
    .with_queries(23)
    .with_keys(29)
    .with_value_size(29);

fn inputs(problem: &Problem, device: &Device) -> [Tensor<4>; 3] {
    ["queries", "keys", "values"].map(|name| problem.inputs[name].f32(device))
}

/// Additive and dot-product attention to the identity.
fn problems(mask: &MaskSpec) -> [Problem; 2] {
    Problem::both(SQUARE, mask).map(|(_, mut problem)| {
        let shape = &problem.inputs["values"].shape;
        let identity = Array::from_fn(shape, |at| f64::from(at[2] == at[3]));
        problem.set("values", identity);
        problem
    })
}

/// Runs a check with both attentions, on every device with autodiff.
fn each(probability: f64, check: impl Check) {
    let _alone = alone();
    device::each_training(|device| {
        for problem in problems(&MaskSpec::lens(&[19, 27])) {
            problem.with_attention(device, probability, &check);
        }
    });
}

fn forward<S: ScoringFunction>(
    attention: &Attention<S>,
    problem: &Problem,
    device: &Device,
) -> Array {
    let [queries, keys, values] = inputs(problem, device);
    Array::read(attention.forward(queries, keys, values, problem.mask.mask(device)))
}

fn with_weights<S: ScoringFunction>(
    attention: &Attention<S>,
    problem: &Problem,
    device: &Device,
) -> [Array; 2] {
    let [queries, keys, values] = inputs(problem, device);
    let output = attention.forward_with_weights(queries, keys, values, problem.mask.mask(device));
    [Array::read(output.context), Array::read(output.weights)]
}

check!(IsOffOutsideTraining, |attention, problem, device| {
    let expected = &problem.solve()["weights"];
    let plain = &device.clone().inner();
    // By the device, and by the module's flag on a training device.
    let inference = attention.valid();
    let context = forward(&inference, problem, plain);
    assert_close("valid", &context, expected, 4e-6);
    let [context, weights] = with_weights(&inference, problem, plain);
    assert_close("valid", &context, expected, 4e-6);
    assert_close("valid", &weights, expected, 4e-6);
    let context = forward(&inference.to_device(device), problem, device);
    assert_close("flag off", &context, expected, 4e-6);
});

#[test]
fn is_off_outside_training() {
    each(PROBABILITY, IsOffOutsideTraining);
    // A flag that is on does not matter on a device that does not train.
    let _alone = alone();
    device::each(|device| {
        for problem in problems(&MaskSpec::lens(&[19, 27])) {
            problem.with_attention(device, PROBABILITY, &DropsNothing);
        }
    });
}

check!(DropsNothing, |attention, problem, device| {
    let expected = &problem.solve()["weights"];
    let context = forward(&attention, problem, device);
    assert_close("forward", &context, expected, 4e-6);
    let [context, weights] = with_weights(&attention, problem, device);
    assert_close("with weights", &context, expected, 4e-6);
    assert_close("with weights", &weights, expected, 4e-6);
});

#[test]
fn of_probability_zero_is_none() {
    each(0.0, DropsNothing);
}

check!(DropsItsShare, |attention, problem, device| {
    device.seed(7);
    let clean = &problem.solve()["weights"];
    let attended = problem.mask.table(problem.scores_shape());
    let [context, weights] = with_weights(&attention, problem, device);
    // The weights returned are those before dropout.
    assert_close("weights", &weights, clean, 4e-6);
    for dropped in [context, forward(&attention, problem, device)] {
        assert_drops_its_share("dropped", &dropped, clean, &attended, PROBABILITY);
    }
});

/// The share of `probability` of the weights is 0, and the others are scaled; `attended` is 0 for weights without keys.
fn assert_drops_its_share(
    what: &str,
    dropped: &Array,
    clean: &Array,
    attended: &Array,
    probability: f64,
) {
    let scaled = clean.map(|weight| weight / (1.0 - probability));
    let (mut count, mut total) = (0.0, 0.0);
    for (at, &number) in dropped.data.iter().enumerate() {
        if attended.data[at] == 0.0 {
            assert_eq!(number, 0.0, "{what}");
            continue;
        }
        total += 1.0;
        match number {
            0.0 => count += 1.0,
            _ => {
                let is_near = (number - scaled.data[at]).abs() < 1e-6;
                assert!(is_near, "{what}: {number} {}", scaled.data[at]);
            }
        }
    }
    // Five standard deviations: wrong once in two million. `<=`, since a probability of 0 deviates by 0.
    let deviation = (total * probability * (1.0 - probability)).sqrt();
    let is_near = (count - total * probability).abs() <= 5.0 * deviation;
    assert!(is_near, "{what}: {count} of {total} dropped");
}

#[test]
fn drops_its_share_scales_the_rest_and_returns_weights_from_before() {
    each(PROBABILITY, DropsItsShare);
}

check!(FollowsTheSeed, |attention, problem, device| {
    let run = |seed| {
        device.seed(seed);
        let calls = [0, 1].map(|_| forward(&attention, problem, device));
        (calls, with_weights(&attention, problem, device))
    };
    let (one, again, other) = (run(1), run(1), run(2));
    let [first, second] = &one.0;
    assert_same("same seed", &again.0[0], first);
    assert_same("same seed, second call", &again.0[1], second);
    assert_same("same seed, with weights", &again.1[0], &one.1[0]);
    assert_ne!(first, second, "two calls drop alike");
    assert_ne!(*first, other.0[0], "two seeds drop alike");
    // Examples, heads and queries drop differently.
    let row = |b, h, i| -> Vec<bool> { (0..19).map(|j| first.at(&[b, h, i, j]) == 0.0).collect() };
    let patterns = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)].map(|(b, h, i)| row(b, h, i));
    for (at, pattern) in patterns.iter().enumerate() {
        assert!(!patterns[..at].contains(pattern), "rows drop alike");
    }
});

#[test]
fn follows_the_seed_and_nothing_else() {
    each(PROBABILITY, FollowsTheSeed);
}

check!(BackwardAgrees, |attention, problem, device| {
    device.seed(3);
    let [queries, keys, values] = inputs(problem, device);
    let values = values.require_grad();
    let output = attention.forward(queries, keys, values.clone(), problem.mask.mask(device));
    let received = Array::draw(9, &output.dims());
    let dropped = Array::read(output.clone());
    let gradients = (output * received.f32(device)).sum().backward();
    let actual = Array::read(values.grad(&gradients).unwrap());
    // The context is the dropped weights; so the gradient of the values is their transpose times what came.
    let expected = Array::from_fn(&actual.shape, |at| {
        (0..SQUARE.queries)
            .map(|i| dropped.at(&[at[0], at[1], i, at[2]]) * received.at(&[at[0], at[1], i, at[3]]))
            .sum()
    });
    assert_close("values", &actual, &expected, 4e-6);
});

#[test]
fn drops_the_same_forward_and_backward() {
    each(PROBABILITY, BackwardAgrees);
}

#[test]
fn leaves_fully_masked_queries_zero() {
    let _alone = alone();
    device::each_training(|device| {
        let config = DotProductAttentionConfig::new().with_dropout(PROBABILITY);
        let attention = config.init();
        let [_, problem] = problems(&MaskSpec::lens(&[0, 5]));
        let padding = problem.mask.padding(problem.scores_shape());
        let problem = problem.with_rows("keys", &padding, f64::NAN);
        let context = forward(&attention, &problem, device);
        let (masked, attended) = context.data.split_at(context.data.len() / 2);
        assert!(masked.iter().all(|&number| number == 0.0));
        assert!(attended.iter().all(|number| number.is_finite()));
        assert!(attended.iter().any(|&number| number != 0.0));
    });
}

#[test]
fn acts_on_prepared_keys_too() {
    let _alone = alone();
    device::each_training(|device| {
        let config = DotProductAttentionConfig::new().with_dropout(PROBABILITY);
        let attention = config.init();
        let [_, problem] = problems(&MaskSpec::None);
        let [queries, keys, values] = inputs(&problem, device);
        let memory = attention.prepare(keys, values, Mask::none());
        device.seed(1);
        let context = Array::read(attention.attend(queries, &memory, Mask::none()));
        device.seed(1);
        assert_same("attend", &context, &forward(&attention, &problem, device));
        assert!(context.data.contains(&0.0));
    });
}
