//! Masked softmax against PyTorch, and what only it promises; `normalizers.rs` has what all normalizers do.

use attention_core::masked_softmax;
use attention_tests::heads::On;
use attention_tests::{
    Array, MaskSpec, assert_close, assert_same, device, masks, oracle, reference,
};
use burn::tensor::{DType, Tensor};

const SHAPE: [usize; 4] = [2, 3, 5, 7];

/// Weights, and the gradient of the scores when the weights receive `gradient`.
fn run<const D: usize>(
    [scores, gradient]: [&Array; 2],
    mask: &MaskSpec,
    (device, dtype): On,
) -> [Array; 2] {
    let scores = scores.leaf::<D>(device, dtype);
    let weights = masked_softmax(scores.clone(), &mask.mask(device));
    let loss = (weights.clone() * gradient.tensor(device, dtype)).sum();
    let gradient = scores.grad(&loss.backward()).unwrap();
    [weights, gradient].map(Array::read)
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-8,
        _ => 3e-6,
    }
}

#[test]
fn is_that_of_pytorch_forward_and_backward() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        for case in reference("masked_softmax") {
            let inputs = ["scores", "grad_weights"].map(|name| &case.inputs[name]);
            let [weights, gradient] = match inputs[0].shape.len() {
                3 => run::<3>(inputs, &case.mask, (device, dtype)),
                _ => run::<4>(inputs, &case.mask, (device, dtype)),
            };
            let (what, near) = (format!("{}: {dtype:?}", case.name), tolerance(dtype));
            assert_close(&what, &weights, &case.outputs["weights"], near);
            assert_close(&what, &gradient, &case.gradients["scores"], near);
        }
    }));
}

#[test]
fn large_and_very_negative_scores_neither_overflow_nor_vanish() {
    device::each_training(device::in_each_type(|(device, dtype)| {
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
                let inputs = [&scores, &gradient];
                let [weights, received] = run::<4>(inputs, &mask, (device, dtype));
                let what = format!("{name}: {offset:e} + {factor:e} * draw, {dtype:?}");
                let expected = oracle::masked_softmax(&scores, &mask);
                assert_close(&what, &weights, &expected, 3e-6);
                let expected = oracle::masked_softmax_gradient(&scores, &mask, &gradient);
                assert_close(&what, &received, &expected, 3e-6);
            }
        }
    }));
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
