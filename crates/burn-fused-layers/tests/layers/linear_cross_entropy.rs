//! The linear layer with its loss against Burn's own operations.

use attention_tests::{Array, assert_all_close, assert_close, assert_same, device, refuses};
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Device, Int, Tensor};
use burn_fused_layers::{ClassTargets, linear_cross_entropy, linear_cross_entropy_of_parts};

const ROWS: usize = 23;

fn leaf<const D: usize>(seed: u64, shape: [usize; D], device: &Device, dtype: DType) -> Tensor<D> {
    Array::draw(seed, &shape).leaf(device, dtype)
}

fn classes_of_rows(classes: usize, device: &Device) -> Tensor<1, Int> {
    let targets: Vec<i32> = (0..ROWS).map(|row| (row * 31 % classes) as i32).collect();
    Tensor::from_data(targets.as_slice(), device)
}

/// Every third row does not count.
fn factors(device: &Device, dtype: DType) -> Tensor<1> {
    let factor = |at: &[usize]| match at[0] % 3 {
        2 => 0.0,
        _ => 1.0 + at[0] as f64 / 32.0,
    };
    Array::from_fn(&[ROWS], factor).tensor::<1>(device, dtype)
}

/// The targets of all rows, which are not smoothed.
fn targets(classes: usize, device: &Device, dtype: DType) -> ClassTargets {
    ClassTargets::new(classes_of_rows(classes, device), factors(device, dtype))
}

#[test]
fn it_is_the_loss_of_the_logits_and_its_gradients() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let tolerance = 64.0 * device::epsilon(dtype);
        for (classes, has_bias, label_smoothing) in [
            (37, true, 0.0),
            (400, false, 0.0),
            (1, true, 0.0),
            (37, true, 0.1),
            (400, false, 0.5),
            (37, false, 1.0),
        ] {
            let input = leaf(1, [ROWS, 13], device, dtype);
            let weight = leaf(2, [13, classes], device, dtype);
            let bias = leaf(3, [classes], device, dtype);
            let targets = targets(classes, device, dtype).with_label_smoothing(label_smoothing);
            let run = |is_ours: bool| {
                let bias_or_none = has_bias.then(|| bias.clone());
                let (loss, predictions) = if is_ours {
                    let (input, weight) = (input.clone(), weight.clone());
                    linear_cross_entropy(input, weight, bias_or_none, targets.clone())
                } else {
                    let logits = input.clone().matmul(weight.clone());
                    let logits = match bias_or_none {
                        Some(bias) => logits + bias.unsqueeze::<2>(),
                        None => logits,
                    };
                    let predictions = logits.clone().argmax(1).squeeze_dim::<1>(1);
                    let indices = targets.classes.clone().unsqueeze_dim::<2>(1);
                    let logarithms = log_softmax(logits, 1);
                    let hits = logarithms.clone().gather(1, indices) * (1.0 - label_smoothing);
                    let hits = hits + logarithms.mean_dim(1) * label_smoothing;
                    let losses = hits.squeeze_dim::<1>(1).neg() * targets.factors.clone();
                    (losses.sum(), predictions)
                };
                // A gradient that is not 1.
                let gradients = (loss.clone() * 3.0).backward();
                let mut results = vec![
                    Array::read(loss),
                    Array::read(predictions.float()),
                    Array::read(input.grad(&gradients).unwrap()),
                    Array::read(weight.grad(&gradients).unwrap()),
                ];
                if has_bias {
                    results.push(Array::read(bias.grad(&gradients).unwrap()));
                }
                results
            };
            assert_all_close(format!("{dtype:?}"), &run(true), &run(false), tolerance);
        }
    }));
}

/// The results are as for concatenated features.
#[test]
fn features_in_parts() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let parts = leaf(1, [2, ROWS, 7], device, dtype);
        let weight = leaf(2, [14, 37], device, dtype);
        let bias = leaf(3, [37], device, dtype);
        let run = |is_in_parts: bool| {
            let targets = targets(37, device, dtype).with_label_smoothing(0.2);
            let (weight_now, bias_now) = (weight.clone(), Some(bias.clone()));
            let (loss, predictions) = if is_in_parts {
                let parts = parts.clone();
                linear_cross_entropy_of_parts(parts, weight_now, bias_now, targets)
            } else {
                let part = |n| parts.clone().narrow(0, n, 1).squeeze_dim::<2>(0);
                let input = Tensor::cat(vec![part(0), part(1)], 1);
                linear_cross_entropy(input, weight_now, bias_now, targets)
            };
            let gradients = (loss.clone() * 3.0).backward();
            [
                Array::read(loss),
                Array::read(predictions.float()),
                Array::read(parts.grad(&gradients).unwrap()),
                Array::read(weight.grad(&gradients).unwrap()),
                Array::read(bias.grad(&gradients).unwrap()),
            ]
        };
        let tolerance = 32.0 * device::epsilon(dtype);
        assert_all_close(format!("{dtype:?}"), &run(true), &run(false), tolerance);
    }));
}

/// Frozen parameters get no gradient, and without any the loss is the same.
#[test]
fn of_constants() {
    device::each_training(|device| {
        let input = leaf(1, [ROWS, 13], device, DType::F32);
        let weight = Array::draw(2, &[13, 37]).tensor::<2>(device, DType::F32);
        let targets = targets(37, device, DType::F32);
        let run = |input: Tensor<2>, weight: Tensor<2>| {
            linear_cross_entropy(input, weight, None, targets.clone()).0
        };
        let loss = run(input.clone(), weight.clone());
        let constant = run(input.clone().detach(), weight.clone());
        assert_eq!(Array::read(loss.clone()), Array::read(constant));
        let gradients = loss.backward();
        assert!(Array::read(input.grad(&gradients).unwrap()).magnitude() > 0.0);
        assert!(weight.grad(&gradients).is_none());
    });
}

#[test]
fn half_precision_is_computed_in_f32() {
    device::each(device::in_half_types(|(device, dtype)| {
        let draw = |seed, shape: [usize; 2]| Array::draw(seed, &shape).tensor::<2>(device, dtype);
        let (input, weight) = (draw(1, [ROWS, 13]), draw(2, [13, 37]));
        let run = |dtype| {
            let (input, weight) = (input.clone().cast(dtype), weight.clone().cast(dtype));
            let targets = targets(37, device, dtype);
            Array::read(linear_cross_entropy(input, weight, None, targets).0)
        };
        let (got, expected) = (run(dtype), run(DType::F32));
        assert_close("loss", &got, &expected, device::epsilon(dtype));
    }));
}

/// Factors may be more precise than logits in half precision, which are computed in f32.
#[test]
fn factors_beside_half_precision_may_be_f32() {
    device::each(device::in_half_types(|(device, dtype)| {
        let draw = |seed, shape: [usize; 2]| Array::draw(seed, &shape).tensor::<2>(device, dtype);
        let run = |of_rows| {
            let (input, weight) = (draw(1, [ROWS, 13]), draw(2, [13, 37]));
            let factors = factors(device, dtype).cast(of_rows);
            let targets = ClassTargets::new(classes_of_rows(37, device), factors);
            Array::read(linear_cross_entropy(input, weight, None, targets).0)
        };
        assert_same("loss", &run(DType::F32), &run(dtype));
    }));
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = &device::plain()[0];
    let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, device);
    let refused = |expected: &str, input: [usize; 2], factors: usize| {
        let factors = Tensor::<1>::ones([factors], device);
        refuses(expected, || {
            let targets = ClassTargets::new(classes_of_rows(3, device), factors);
            linear_cross_entropy(zeros(input), zeros([5, 3]), None, targets);
        });
    };
    refused("input expected [rows, 5]", [ROWS, 4], ROWS);
    refused("factors expected [23], got [2]", [ROWS, 5], 2);
    refused("targets expected [4], got [23]", [4, 5], 4);
    let refusal = "parts times size 5, and some classes, got [3, 23, 2] and 3";
    refuses(refusal, || {
        let parts = Tensor::<3>::zeros([3, ROWS, 2], device);
        let targets = targets(3, device, DType::F32);
        linear_cross_entropy_of_parts(parts, zeros([5, 3]), None, targets);
    });
    refuses("label smoothing expected in [0, 1], got 1.5", || {
        let targets = targets(3, device, DType::F32).with_label_smoothing(1.5);
        linear_cross_entropy(zeros([ROWS, 5]), zeros([5, 3]), None, targets);
    });
}
