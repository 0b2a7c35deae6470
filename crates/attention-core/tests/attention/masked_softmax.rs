//! Masked softmax: against PyTorch, against loops, and its promises.

use attention_core::{Mask, masked_softmax};
use attention_tests::{
    Array, MaskSpec, assert_close, assert_same, assert_zero, device, masks, oracle, reference,
};
use burn::tensor::{DType, Device, Tensor};

const SHAPE: [usize; 4] = [2, 3, 5, 7];

/// Weights, and the gradient of the scores when the weights receive `gradient`.
fn run(
    scores: &Array,
    mask: &MaskSpec,
    gradient: &Array,
    device: &Device,
    dtype: DType,
) -> (Array, Array) {
    fn axes<const D: usize>(
        scores: &Array,
        mask: &Mask,
        gradient: &Array,
        device: &Device,
        dtype: DType,
    ) -> (Array, Array) {
        let scores = scores.tensor::<D>(device, dtype).require_grad();
        let weights = masked_softmax(scores.clone(), mask);
        let loss = (weights.clone() * gradient.tensor(device, dtype)).sum();
        let gradient = scores.grad(&loss.backward()).unwrap();
        (Array::read(weights), Array::read(gradient))
    }
    let mask = mask.mask(device);
    match scores.shape.len() {
        3 => axes::<3>(scores, &mask, gradient, device, dtype),
        _ => axes::<4>(scores, &mask, gradient, device, dtype),
    }
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-8,
        _ => 3e-6,
    }
}

#[test]
fn is_that_of_pytorch_forward_and_backward() {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for case in reference("masked_softmax") {
                let gradient = &case.inputs["grad_weights"];
                let (weights, scores_gradient) =
                    run(&case.inputs["scores"], &case.mask, gradient, device, dtype);
                let what = format!("{}: {dtype:?}", case.name);
                assert_close(&what, &weights, &case.outputs["weights"], tolerance(dtype));
                assert_close(
                    &what,
                    &scores_gradient,
                    &case.gradients["scores"],
                    tolerance(dtype),
                );
            }
        }
    });
}

#[test]
fn masked_weights_are_exactly_zero_and_rows_sum_to_one() {
    device::each(|device| {
        for (name, mask) in masks(SHAPE) {
            let scores = Array::draw(1, &SHAPE);
            let weights = Array::read(masked_softmax(scores.f32::<4>(device), &mask.mask(device)));
            assert_close(
                name,
                &weights,
                &oracle::masked_softmax(&scores, &mask),
                1e-6,
            );
            let attended = mask.table(SHAPE);
            let rows = weights
                .data
                .chunks(SHAPE[3])
                .zip(attended.data.chunks(SHAPE[3]));
            for (row, attended) in rows {
                let any = attended.contains(&1.0);
                let sum: f64 = row.iter().sum();
                assert!(
                    (sum - f64::from(any)).abs() < 1e-6,
                    "{name}: a row sums to {sum}"
                );
                for (weight, attended) in row.iter().zip(attended) {
                    // An exact zero where masked, something above it elsewhere.
                    assert_eq!(*weight > 0.0, *attended == 1.0, "{name}: {weight}");
                }
            }
        }
    });
}

#[test]
fn masked_scores_reach_neither_weights_nor_gradients() {
    device::each_training(|device| {
        for (name, mask) in masks(SHAPE) {
            let attended = mask.table(SHAPE);
            let fill = |array: &Array, number: f64| {
                Array::from_fn(&SHAPE, |at| {
                    if attended.at(at) == 0.0 {
                        number
                    } else {
                        array.at(at)
                    }
                })
            };
            let (scores, gradient) = (Array::draw(1, &SHAPE), Array::draw(2, &SHAPE));
            let clean = run(&scores, &mask, &gradient, device, DType::F32);
            for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3e38, -3e38] {
                let dirty = run(&fill(&scores, poison), &mask, &gradient, device, DType::F32);
                assert_same(
                    &format!("{name}: weights, {poison} in scores"),
                    &dirty.0,
                    &clean.0,
                );
                assert_same(
                    &format!("{name}: gradient, {poison} in scores"),
                    &dirty.1,
                    &clean.1,
                );
                // The gradient of a masked weight counts as little.
                let dirty = run(&scores, &mask, &fill(&gradient, poison), device, DType::F32);
                assert_same(
                    &format!("{name}: gradient, {poison} received"),
                    &dirty.1,
                    &clean.1,
                );
            }
        }
    });
}

#[test]
fn a_fully_masked_query_has_weights_and_gradients_of_zero() {
    device::each_training(|device| {
        let masks = [
            MaskSpec::lens(&[0, 0]),
            MaskSpec::Keep(Array::full(&[5, 7], 0.0)),
            MaskSpec::lens(&[3, 0]).and(MaskSpec::Keep(
                Array::from_fn(&[7], |at| f64::from(at[0] > 2)).reshape(&[1, 7]),
            )),
        ];
        for mask in masks {
            let (scores, gradient) = (Array::draw(1, &SHAPE), Array::draw(2, &SHAPE));
            let (weights, gradient) = run(&scores, &mask, &gradient, device, DType::F32);
            assert_zero("weights", &weights);
            assert_zero("gradient", &gradient);
        }
    });
}

#[test]
fn a_score_of_minus_infinity_is_a_masked_key() {
    device::each_training(|device| {
        let keep = Array::draw(3, &SHAPE).map(|number| f64::from(number < 0.5));
        let mut keep = keep;
        for key in 0..SHAPE[3] {
            *keep.at_mut(&[1, 2, 3, key]) = 0.0; // All scores of this query are -inf.
        }
        let scores = Array::draw(1, &SHAPE);
        let infinite = Array::from_fn(&SHAPE, |at| match keep.at(at) {
            0.0 => f64::NEG_INFINITY,
            _ => scores.at(at),
        });
        let gradient = Array::draw(2, &SHAPE);
        for other in [MaskSpec::None, MaskSpec::lens(&[4, 6]), MaskSpec::Causal] {
            let masked = MaskSpec::Keep(keep.clone()).and(other.clone());
            let expected = run(&scores, &masked, &gradient, device, DType::F32);
            let actual = run(&infinite, &other, &gradient, device, DType::F32);
            assert_same("weights", &actual.0, &expected.0);
            assert_same("gradient", &actual.1, &expected.1);
        }
    });
}

#[test]
fn an_unmasked_nan_stays_with_its_query() {
    device::each(|device| {
        let mut scores = Array::draw(1, &SHAPE);
        let mask = MaskSpec::lens(&[4, 6]);
        let clean = Array::read(masked_softmax(scores.f32::<4>(device), &mask.mask(device)));
        *scores.at_mut(&[1, 0, 2, 3]) = f64::NAN;
        let weights = Array::read(masked_softmax(scores.f32::<4>(device), &mask.mask(device)));
        for (at, (&weight, &expected)) in weights.data.iter().zip(&clean.data).enumerate() {
            let row = at / SHAPE[3];
            let key = at % SHAPE[3];
            let poisoned = row == (SHAPE[1] * SHAPE[2]) + 2 && key < 6;
            assert_eq!(weight.is_nan(), poisoned, "row {row}, key {key}: {weight}");
            assert!(poisoned || weight == expected, "row {row}, key {key}");
        }
    });
}

#[test]
fn large_and_very_negative_scores_neither_overflow_nor_vanish() {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for (offset, factor) in [
                (3e4, 1.0),
                (-3e4, 1.0),
                (0.0, 1e4),
                (-1e37, 0.0),
                (1e37, 0.0),
            ] {
                for (name, mask) in masks(SHAPE) {
                    let draw = Array::draw(1, &SHAPE);
                    let scores = draw.map(|number| f64::from((offset + factor * number) as f32));
                    let gradient = Array::draw(2, &SHAPE);
                    let (weights, received) = run(&scores, &mask, &gradient, device, dtype);
                    let what = format!("{name}: {offset:e} + {factor:e} * draw, {dtype:?}");
                    let expected = oracle::masked_softmax(&scores, &mask);
                    assert_close(&what, &weights, &expected, 3e-6);
                    // The gradient of softmax, from the weights of the oracle.
                    let expected = Array::from_fn(&SHAPE, |at| {
                        let row = (0..SHAPE[3]).map(|key| [at[0], at[1], at[2], key]);
                        let mean: f64 = row.map(|key| expected.at(&key) * gradient.at(&key)).sum();
                        expected.at(at) * (gradient.at(at) - mean)
                    });
                    assert_close(&what, &received, &expected, 3e-6);
                }
            }
        }
    });
}

#[test]
fn three_axes_are_four_with_one_head() {
    device::each(|device| {
        let scores = Array::draw(1, &[2, 5, 7]);
        for (name, mask) in masks([2, 1, 5, 7]) {
            let mask = mask.mask(device);
            let three = Array::read(masked_softmax(scores.f32::<3>(device), &mask));
            let four: Tensor<4> = masked_softmax(scores.with_heads().f32(device), &mask);
            assert_same(name, &three, &Array::read(four).reshape(&[2, 5, 7]));
        }
    });
}
