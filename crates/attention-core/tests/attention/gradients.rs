//! Gradients against finite differences, in f64, of every input and parameter.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, ScoringFunction};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, Sizes, assert_close, assert_outcomes_close, device,
    masks, oracle,
};
use burn::tensor::{DType, Device};

const SMALL: Sizes = Sizes::new([2, 3, 2, 5], [3, 4, 7, 1]);

/// Calls `test` where there is f64.
fn each_with_f64(test: impl Fn(&Device)) {
    device::each(|device| {
        if device::computes(device, DType::F64) {
            test(device);
        }
    });
}

/// Compares the gradient of every input with differences of the loss on the same device without autodiff.
fn check(what: &str, problem: &Problem, path: Path, device: &Device) {
    let outcome = problem.run(&device.clone().autodiff(), DType::F64, path);
    for (name, input) in &problem.inputs {
        let expected = oracle::differences(input, 1e-5, |moved| {
            let mut problem = problem.clone();
            problem.set(name, moved.clone());
            problem.loss(&problem.run(device, DType::F64, path))
        });
        let actual = &outcome[&format!("grad {name}")];
        assert_close(format!("{what}: {path:?}: {name}"), actual, &expected, 1e-8);
    }
}

#[test]
fn of_additive_attention_are_finite_differences() {
    each_with_f64(|device| {
        for mask in [MaskSpec::None, MaskSpec::lens_per_query(2, &[3, 0, 5, 2])] {
            let problem = Problem::additive(SMALL, mask);
            check("additive", &problem, Path::Forward, device);
            let problem = problem.with_grad_weights(5);
            check("additive", &problem, Path::ForwardWithWeights, device);
        }
        let three_axes = Problem::additive(SMALL.with_heads(0), MaskSpec::lens(&[4, 1]));
        check("additive, three axes", &three_axes, Path::Forward, device);
        check("additive, three axes", &three_axes, Path::Attend, device);
    });
}

#[test]
fn of_dot_product_attention_are_finite_differences() {
    each_with_f64(|device| {
        let lens = MaskSpec::lens_per_query(2, &[3, 0, 5, 2]);
        for mask in [MaskSpec::None, MaskSpec::Causal, lens] {
            let mut problem = Problem::dot_product(SMALL, mask);
            problem.scale = Some(0.7);
            check("dot-product", &problem, Path::Forward, device);
            check("dot-product", &problem, Path::Attend, device);
            let problem = problem.with_grad_weights(5);
            check("dot-product", &problem, Path::ForwardWithWeights, device);
        }
    });
}

#[test]
fn are_finite_differences_under_every_mask() {
    let sizes = Sizes::new([2, 1, 2, 5], [2, 3, 3, 1]);
    each_with_f64(|device| {
        for (name, mask) in masks([2, 1, 2, 5]) {
            for (kind, problem) in Problem::both(sizes, &mask) {
                check(&format!("{kind}: {name}"), &problem, Path::Forward, device);
            }
        }
    });
}

#[test]
fn are_those_of_f64_in_f32_and_on_every_backend() {
    let mut devices = device::plain().into_iter();
    let Some(exact) = devices.find(|device| device::computes(device, DType::F64)) else {
        return;
    };
    let exact = exact.autodiff();
    // One problem off and one above any tile.
    let large = Sizes::new([2, 1, 37, 71], [5, 3, 67, 17]);
    for (sizes, tolerance) in [(SMALL, 4e-6), (SIZES, 4e-6), (large, 3e-5)] {
        for (name, mask) in masks([sizes.batch, sizes.heads, sizes.queries, sizes.keys]) {
            for (kind, problem) in Problem::both(sizes, &mask) {
                for path in Path::ALL {
                    let expected = problem.run(&exact, DType::F64, path);
                    if expected["context"].magnitude() == 0.0 {
                        continue;
                    }
                    device::each_training(|device| {
                        let what = format!("{kind}: {name}: {path:?}");
                        let outcome = problem.run(device, DType::F32, path);
                        assert_outcomes_close(&what, &outcome, &expected, tolerance);
                    });
                }
            }
        }
    }
}

#[test]
fn are_the_same_with_gradient_checkpointing() {
    device::each_training(|device| {
        for mask in [MaskSpec::lens(&[3, 5]), MaskSpec::Causal] {
            for (kind, problem) in Problem::both(SMALL, &mask) {
                let expected = problem.run(device, DType::F32, Path::Forward);
                let recomputing = device.clone().gradient_checkpointing();
                let outcome = problem.run(&recomputing, DType::F32, Path::Forward);
                assert_outcomes_close(kind, &outcome, &expected, 1e-6);
            }
        }
    });
}

/// The gradient of one tensor that is query, key and value at once.
fn check_shared<S: ScoringFunction>(
    what: &str,
    attention: &Attention<S>,
    plain: &Attention<S>,
    device: &Device,
) {
    let training = device.clone().autodiff();
    let (input, received) = (Array::draw(1, &[2, 5, 3]), Array::draw(2, &[2, 5, 3]));
    for mask in [MaskSpec::None, MaskSpec::lens(&[2, 4]), MaskSpec::Causal] {
        let x = input.tensor::<3>(&training, DType::F64).require_grad();
        let context = attention.forward(x.clone(), x.clone(), x.clone(), mask.mask(&training));
        let loss = (context * received.tensor(&training, DType::F64)).sum();
        let actual = Array::read(x.grad(&loss.backward()).unwrap());
        let expected = oracle::differences(&input, 1e-5, |moved| {
            let x = moved.tensor::<3>(device, DType::F64);
            let context = plain.forward(x.clone(), x.clone(), x, mask.mask(device));
            Array::read(context).dot(&received)
        });
        assert_close(what, &actual, &expected, 1e-8);
    }
}

#[test]
fn add_up_where_one_tensor_is_query_key_and_value() {
    each_with_f64(|device| {
        let sizes = SMALL.with_query_size(3).with_key_size(3);
        let problem = Problem::additive(sizes, MaskSpec::None);
        let [training, plain] = [&device.clone().autodiff(), device]
            .map(|device| Attention::new(problem.additive_score(device, DType::F64), 0.0));
        check_shared("additive", &training, &plain, device);
        let dot_product = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        check_shared("dot-product", &dot_product, &dot_product, device);
    });
}

#[test]
fn reach_only_what_asks_for_them() {
    device::each_training(|device| {
        let queries = Array::draw(1, &[2, 5, 3]).f32::<3>(device);
        let keys = Array::draw(2, &[2, 7, 3]).f32::<3>(device);
        let values = Array::draw(3, &[2, 7, 11]).leaf::<3>(device, DType::F32);
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let mask = MaskSpec::lens(&[4, 6]).mask(device);
        let context = attention.forward(queries.clone(), keys.clone(), values.clone(), &mask);
        let gradients = context.sum().backward();
        assert!(queries.grad(&gradients).is_none());
        assert!(keys.grad(&gradients).is_none());
        // Each query spends a weight of 1 on the values of each component.
        let spent = Array::read(values.grad(&gradients).unwrap().sum_dim(1));
        assert_close("values", &spent, &Array::full(&[2, 1, 11], 5.0), 1e-6);
    });
}
