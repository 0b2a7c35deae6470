//! Gradients against finite differences, in f64, of every input and parameter.

use attention_core::{Attention, DotProductScoreConfig, ScoringFunction, masked_softmax};
use attention_tests::{
    Array, MaskSpec, Path, Problem, Sizes, assert_close, assert_outcomes_close, device, masks,
    oracle,
};
use burn::tensor::{DType, Device, Tensor};

const SMALL: Sizes = Sizes {
    batch: 2,
    heads: 3,
    queries: 2,
    keys: 5,
    query_size: 3,
    key_size: 4,
    hiddens: 7,
    value_size: 1,
};

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
        assert_close(
            &format!("{what}: {path:?}: {name}"),
            actual,
            &expected,
            1e-8,
        );
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
        let three_axes = Problem::additive(Sizes { heads: 0, ..SMALL }, MaskSpec::lens(&[4, 1]));
        check("additive, three axes", &three_axes, Path::Forward, device);
        check("additive, three axes", &three_axes, Path::Attend, device);
    });
}

#[test]
fn of_dot_product_attention_are_finite_differences() {
    each_with_f64(|device| {
        for mask in [
            MaskSpec::None,
            MaskSpec::Causal,
            MaskSpec::lens_per_query(2, &[3, 0, 5, 2]),
        ] {
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
    let sizes = Sizes {
        heads: 1,
        query_size: 2,
        key_size: 3,
        hiddens: 3,
        ..SMALL
    };
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
    let shape = [SMALL.batch, SMALL.heads, SMALL.queries, SMALL.keys];
    let Some(exact) = device::plain()
        .into_iter()
        .find(|device| device::computes(device, DType::F64))
    else {
        return;
    };
    for (name, mask) in masks(shape) {
        for (kind, problem) in Problem::both(SMALL, &mask) {
            for path in Path::ALL {
                let expected = problem.run(&exact.clone().autodiff(), DType::F64, path);
                if expected["context"].magnitude() == 0.0 {
                    continue;
                }
                device::each_training(|device| {
                    let what = format!("{kind}: {name}: {path:?}");
                    let outcome = problem.run(device, DType::F32, path);
                    assert_outcomes_close(&what, &outcome, &expected, 4e-6);
                });
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
        let context = attention.forward(x.clone(), x.clone(), x.clone(), &mask.mask(&training));
        let loss = (context * received.tensor(&training, DType::F64)).sum();
        let actual = Array::read(x.grad(&loss.backward()).unwrap());
        let expected = oracle::differences(&input, 1e-5, |moved| {
            let x = moved.tensor::<3>(device, DType::F64);
            let context = plain.forward(x.clone(), x.clone(), x, &mask.mask(device));
            Array::read(context).dot(&received)
        });
        assert_close(what, &actual, &expected, 1e-8);
    }
}

#[test]
fn add_up_where_one_tensor_is_query_key_and_value() {
    each_with_f64(|device| {
        let sizes = Sizes {
            query_size: 3,
            key_size: 3,
            ..SMALL
        };
        let problem = Problem::additive(sizes, MaskSpec::None);
        let additive =
            |device: &Device| Attention::new(problem.additive_score(device, DType::F64), 0.0);
        check_shared(
            "additive",
            &additive(&device.clone().autodiff()),
            &additive(device),
            device,
        );
        let dot_product = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        check_shared("dot-product", &dot_product, &dot_product, device);
    });
}

#[test]
fn reach_only_what_asks_for_them() {
    device::each_training(|device| {
        let queries = Array::draw(1, &[2, 5, 3]).f32::<3>(device);
        let keys = Array::draw(2, &[2, 7, 3]).f32::<3>(device);
        let values = Array::draw(3, &[2, 7, 11]).f32::<3>(device).require_grad();
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

#[test]
fn of_masked_softmax_are_finite_differences() {
    let shape = [2, 3, 5, 7];
    each_with_f64(|device| {
        for (name, mask) in masks(shape) {
            let (scores, received) = (Array::draw(1, &shape), Array::draw(2, &shape));
            let training = device.clone().autodiff();
            let tensor = scores.tensor::<4>(&training, DType::F64).require_grad();
            let weights = masked_softmax(tensor.clone(), &mask.mask(&training));
            let loss = (weights * received.tensor(&training, DType::F64)).sum();
            let actual = Array::read(tensor.grad(&loss.backward()).unwrap());
            // Differences of the oracle, not of the library.
            let expected = oracle::differences(&scores, 1e-5, |moved| {
                oracle::masked_softmax(moved, &mask).dot(&received)
            });
            assert_close(name, &actual, &expected, 1e-8);
        }
    });
}

#[test]
fn gradients_of_all_steps_add_up_in_keys_values_and_parameters() {
    device::each_training(|device| {
        let problem = Problem::additive(SMALL, MaskSpec::lens(&[2, 4]));
        let expected = problem.run(device, DType::F32, Path::Forward);
        let score = problem.additive_score(device, DType::F32);
        let attention = Attention::new(score, 0.0);
        let [queries, keys, values] = ["queries", "keys", "values"]
            .map(|name| problem.inputs[name].f32::<4>(device).require_grad());
        let mask = problem.mask.mask(device);
        let memory = attention.prepare(keys.clone(), values.clone(), mask);
        let received: Tensor<4> = problem.grad_context.as_ref().unwrap().f32(device);
        let loss = (0..SMALL.queries)
            .map(|step| {
                let context = attention.attend(queries.clone().narrow(2, step, 1), &memory);
                (context * received.clone().narrow(2, step, 1)).sum()
            })
            .reduce(|sum, step| sum + step)
            .unwrap();
        let gradients = loss.backward();
        let tensors = [("queries", queries), ("keys", keys), ("values", values)];
        for (name, tensor) in tensors {
            let gradient = Array::read(tensor.grad(&gradients).unwrap());
            assert_close(name, &gradient, &expected[&format!("grad {name}")], 4e-6);
        }
        let weights = [
            ("W_q", attention.score.query.weight.val()),
            ("W_k", attention.score.key.weight.val()),
            ("w_v", attention.score.value.weight.val()),
        ];
        for (name, weight) in weights {
            let gradient = Array::read(weight.grad(&gradients).unwrap());
            assert_close(name, &gradient, &expected[&format!("grad {name}")], 4e-6);
        }
    });
}
