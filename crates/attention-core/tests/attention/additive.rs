//! Additive attention against plain loops, and the identity it rests on.

use attention_core::functional;
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, Sizes, assert_close, assert_outcomes_close, assert_same,
    device, masks, oracle,
};
use burn::tensor::Tensor;

#[test]
fn is_the_formula_under_every_mask() {
    let shape = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    for (name, mask) in masks(shape) {
        let problem = Problem::additive(SIZES, mask);
        let mut expected = problem.solve();
        if expected["context"].magnitude() == 0.0 {
            continue; // All keys masked: the subject of fully_masked_queries.rs.
        }
        device::each(|device| {
            for dtype in device::dtypes(device) {
                let tolerance = 20.0 * device::epsilon(dtype);
                let outcome = problem.run(device, dtype, Path::ForwardWithWeights);
                assert_outcomes_close(name, &outcome, &expected, tolerance);
            }
        });
        expected.remove("weights");
        device::each(|device| {
            for dtype in device::dtypes(device) {
                let tolerance = 20.0 * device::epsilon(dtype);
                let outcome = problem.run(device, dtype, Path::Forward);
                assert_outcomes_close(name, &outcome, &expected, tolerance);
            }
        });
    }
}

#[test]
fn scores_stay_right_above_every_tile() {
    // One size above tiles of 64 queries, 128 keys and 64 hidden units, and not a multiple of any vector.
    let sizes = Sizes {
        batch: 1,
        heads: 0,
        queries: 67,
        keys: 131,
        query_size: 3,
        key_size: 5,
        hiddens: 71,
        value_size: 2,
    };
    let problem = Problem::additive(sizes, MaskSpec::lens(&[129]));
    let expected = problem.solve();
    device::each(|device| {
        for dtype in device::dtypes(device) {
            let outcome = problem.run(device, dtype, Path::ForwardWithWeights);
            assert_outcomes_close("large", &outcome, &expected, 40.0 * device::epsilon(dtype));
        }
    });
}

#[test]
fn saturated_units_are_exactly_plus_or_minus_one() {
    // Far outside the range in which an exponential is finite.
    for magnitude in [10.0, 45.0, 90.0, 1e4, 1e30] {
        let queries = Array::from_fn(&[1, 1, 3, 2], |at| [-magnitude, magnitude, 0.0][at[2]]);
        let keys = Array::from_fn(&[1, 1, 4, 2], |at| {
            [0.0, magnitude, -magnitude / 2.0, 0.25][at[2]]
        });
        let weight = Array::from_fn(&[2], |at| [1.5, -0.25][at[0]]);
        let expected = Array::from_fn(&[1, 1, 3, 4], |at| {
            let sum = queries.at(&[0, 0, at[2], 0]) + keys.at(&[0, 0, at[3], 0]);
            1.25 * sum.tanh()
        });
        device::each_both_ways(|device| {
            let scores = functional::additive_score(
                queries.f32(device),
                keys.f32(device),
                weight.f32(device),
                &MaskSpec::None.mask(device),
            );
            assert_close(
                &format!("{magnitude}"),
                &Array::read(scores),
                &expected,
                1e-6,
            );
        });
    }
}

#[test]
fn saturated_units_pass_no_gradient_and_no_nan() {
    device::each_training(|device| {
        for magnitude in [50.0, 1e4, 1e30] {
            let queries = Array::from_fn(&[1, 1, 3, 5], |at| {
                if at[2] == 1 { -magnitude } else { magnitude }
            });
            let queries: Tensor<4> = queries.f32(device).require_grad();
            let keys: Tensor<4> = Array::draw(1, &[1, 1, 7, 5]).f32(device).require_grad();
            let weight: Tensor<1> = Array::draw(2, &[5]).f32(device).require_grad();
            let mask = MaskSpec::None.mask(device);
            let scores =
                functional::additive_score(queries.clone(), keys.clone(), weight.clone(), &mask);
            let received = Array::draw(3, &[1, 1, 3, 7]);
            let gradients = (scores * received.f32(device)).sum().backward();
            let of_queries = Array::read(queries.grad(&gradients).unwrap());
            assert!(of_queries.magnitude() < 1e-30, "{of_queries:?}");
            let of_keys = Array::read(keys.grad(&gradients).unwrap());
            assert!(of_keys.magnitude() < 1e-30, "{of_keys:?}");
            // tanh is the sign of the query.
            let sum: f64 = (0..3)
                .flat_map(|i| (0..7).map(move |j| (i, j)))
                .map(|(i, j)| received.at(&[0, 0, i, j]) * if i == 1 { -1.0 } else { 1.0 })
                .sum();
            let of_weight = Array::read(weight.grad(&gradients).unwrap());
            assert_close("weight", &of_weight, &Array::full(&[5], sum), 1e-6);
        }
    });
}

#[test]
fn masked_scores_are_zero() {
    let shape = [2, 3, 5, 7];
    device::each(|device| {
        for (name, mask) in masks(shape) {
            let (queries, keys) = (
                Array::draw(1, &[2, 3, 5, 11]),
                Array::draw(2, &[2, 3, 7, 11]),
            );
            let weight = Array::draw(3, &[11]);
            let scores = functional::additive_score(
                queries.f32(device),
                keys.f32(device),
                weight.f32(device),
                &mask.mask(device),
            );
            let one = Array::from_fn(&[11, 11], |at| f64::from(at[0] == at[1]));
            let expected =
                oracle::additive_scores(&queries, &keys, &one, &one, &weight.reshape(&[11, 1]));
            let attended = mask.table(shape);
            let expected = Array::from_fn(&shape, |at| expected.at(at) * attended.at(at));
            assert_close(name, &Array::read(scores), &expected, 2e-6);
        }
    });
}

#[test]
fn three_axes_are_four_with_one_head() {
    let three = Problem::additive(Sizes { heads: 0, ..SIZES }, MaskSpec::lens(&[3, 6]));
    let mut four = three.clone();
    for name in ["queries", "keys", "values"] {
        four.set(name, three.inputs[name].with_heads());
    }
    four.grad_context = three.grad_context.as_ref().map(Array::with_heads);
    device::each_training(|device| {
        for path in Path::ALL {
            let actual = three.run(device, burn::tensor::DType::F32, path);
            let expected = four.run(device, burn::tensor::DType::F32, path);
            for (name, expected) in &expected {
                let actual = &actual[name];
                assert_same(name, &actual.with_heads(), &expected.with_heads());
            }
        }
    });
}
