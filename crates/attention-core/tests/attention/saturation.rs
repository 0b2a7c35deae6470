//! Additive attention where hidden units are saturated.

use attention_core::functional;
use attention_tests::{Array, MaskSpec, assert_close, device};
use burn::tensor::{DType, Tensor};

#[test]
fn saturated_units_are_exactly_plus_or_minus_one() {
    // Far outside the range in which an exponential is finite.
    for magnitude in [10.0, 45.0, 90.0, 1e4, 1e30] {
        let queries = Array::from_fn(&[1, 1, 3, 2], |at| [-magnitude, magnitude, 0.0][at[2]]);
        let of_keys = [0.0, magnitude, -magnitude / 2.0, 0.25];
        let keys = Array::from_fn(&[1, 1, 4, 2], |at| of_keys[at[2]]);
        let weight = Array::new(&[2], [1.5, -0.25]);
        let expected = Array::from_fn(&[1, 1, 3, 4], |at| {
            let sum = queries.at(&[0, 0, at[2], 0]) + keys.at(&[0, 0, at[3], 0]);
            1.25 * sum.tanh()
        });
        device::each_both_ways(|device| {
            let (queries, keys) = (queries.f32(device), keys.f32(device));
            let mask = MaskSpec::None.mask(device);
            let scores = functional::additive_score(queries, keys, weight.f32(device), &mask);
            assert_close(format!("{magnitude}"), scores, &expected, 1e-6);
        });
    }
}

#[test]
fn saturated_units_pass_no_gradient_and_no_nan() {
    device::each_training(|device| {
        for magnitude in [50.0, 1e4, 1e30] {
            let queries = Array::from_fn(&[1, 1, 3, 5], |at| [1.0, -1.0, 1.0][at[2]] * magnitude);
            let queries: Tensor<4> = queries.leaf(device, DType::F32);
            let keys: Tensor<4> = Array::draw(1, &[1, 1, 7, 5]).leaf(device, DType::F32);
            let weight: Tensor<1> = Array::draw(2, &[5]).leaf(device, DType::F32);
            let mask = MaskSpec::None.mask(device);
            let (q, k, w) = (queries.clone(), keys.clone(), weight.clone());
            let scores = functional::additive_score(q, k, w, &mask);
            let received = Array::draw(3, &[1, 1, 3, 7]);
            let gradients = (scores * received.f32(device)).sum().backward();
            let of_queries = Array::read(queries.grad(&gradients).unwrap());
            assert!(of_queries.magnitude() < 1e-30, "{of_queries:?}");
            let of_keys = Array::read(keys.grad(&gradients).unwrap());
            assert!(of_keys.magnitude() < 1e-30, "{of_keys:?}");
            // tanh is the sign of the query.
            let rows = received.data.chunks(7).zip([1.0, -1.0, 1.0]);
            let sum = rows.map(|(row, sign)| sign * row.iter().sum::<f64>()).sum();
            let of_weight = Array::read(weight.grad(&gradients).unwrap());
            assert_close("weight", &of_weight, &Array::full(&[5], sum), 1e-6);
        }
    });
}
