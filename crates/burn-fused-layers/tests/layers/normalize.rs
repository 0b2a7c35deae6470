//! Normalizations against Burn's own operations in f64.

use attention_tests::{Array, assert_all_close, assert_same, device, panic_message};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::{is_in_host_memory, layer_norm, rms_norm};

const EPSILON: f64 = 1e-5;

/// Which normalization.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Layer,
    LayerWithoutBias,
    Rms,
}

const ALL: [Kind; 3] = [Kind::Layer, Kind::LayerWithoutBias, Kind::Rms];

fn ours(kind: Kind, input: Tensor<3>, gain: Tensor<1>, bias: Tensor<1>) -> Tensor<3> {
    match kind {
        Kind::Layer => layer_norm(input, gain, Some(bias), EPSILON),
        Kind::LayerWithoutBias => layer_norm(input, gain, None, EPSILON),
        Kind::Rms => rms_norm(input, gain, EPSILON),
    }
}

/// The formula. Without divisions, whose gradient Burn 0.22.1 rounds to f32.
fn formula(kind: Kind, input: Tensor<3>, gain: Tensor<1>, bias: Tensor<1>) -> Tensor<3> {
    let [.., size] = input.dims();
    let mean = |x: Tensor<3>| x.sum_dim(2) * (1.0 / size as f64);
    let centered = match kind {
        Kind::Rms => input,
        Kind::Layer | Kind::LayerWithoutBias => input.clone() - mean(input),
    };
    let variance = mean(centered.clone() * centered.clone());
    let normal = centered * (variance + EPSILON).sqrt().recip();
    let output = normal * gain.unsqueeze::<3>();
    match kind {
        Kind::Layer => output + bias.unsqueeze::<3>(),
        Kind::LayerWithoutBias | Kind::Rms => output,
    }
}

/// The result, and the gradients of input, gain and perhaps bias in a loss.
fn run(
    device: &Device,
    dtype: DType,
    shape: [usize; 3],
    apply: impl Fn(Tensor<3>, Tensor<1>, Tensor<1>) -> Tensor<3>,
) -> Vec<Array> {
    let [.., size] = shape;
    let input = Array::draw(1, &shape).leaf::<3>(device, dtype);
    let [gain, bias] = [2, 3].map(|seed| Array::draw(seed, &[size]).leaf::<1>(device, dtype));
    let output = apply(input.clone(), gain.clone(), bias.clone());
    let received = Array::draw(4, &shape).tensor(device, dtype);
    let gradients = (output.clone() * received).sum().backward();
    let mut all = [output, input.grad(&gradients).expect("a leaf")]
        .map(Array::read)
        .to_vec();
    all.extend(
        [gain, bias]
            .iter()
            .filter_map(|leaf| leaf.grad(&gradients).map(Array::read)),
    );
    all
}

#[test]
fn normalizations_are_the_formulas_with_their_gradients() {
    let exact = Device::flex().autodiff();
    device::each_training(device::in_all_types(|(device, dtype)| {
        for kind in ALL {
            for shape in [[3, 7, 41], [5, 37, 17], [2, 3, 5]] {
                let got = run(device, dtype, shape, |x, g, b| ours(kind, x, g, b));
                let expected = run(&exact, DType::F64, shape, |x, g, b| formula(kind, x, g, b));
                assert_eq!(got.len(), 3 + usize::from(matches!(kind, Kind::Layer)));
                let what = format!("{dtype:?} {kind:?} {shape:?}");
                assert_all_close(what, &got, &expected, 20.0 * device::epsilon(dtype));
            }
        }
    }));
}

/// Transposed and sliced rows, of any number of axes.
#[test]
fn normalizations_of_views() {
    device::each(|device| {
        let tensor = Array::draw(1, &[9, 7]).f32::<2>(device);
        let gain = Array::draw(2, &[5]).f32::<1>(device);
        let view = tensor.transpose().slice([1..6, 3..8]);
        let copied = Array::read(view.clone()).f32::<2>(device);
        let [got, expected] = [view, copied].map(|rows| rms_norm(rows, gain.clone(), EPSILON));
        assert_same("a view", got, expected);
        let row = Array::draw(3, &[5]).f32::<1>(device);
        let alone = Array::read(layer_norm(row.clone(), gain.clone(), None, EPSILON));
        let among = layer_norm(row.unsqueeze::<4>(), gain.clone(), None, EPSILON);
        assert_eq!(among.dims(), [1, 1, 1, 5]);
        assert_same("a row", &alone, &Array::read(among).reshape(&[5]));
    });
}

#[test]
fn what_is_not_finite_stays_in_its_row() {
    device::each_training(|device| {
        if !is_in_host_memory(device) {
            // NaN and infinity in a shader are up to the driver.
            return;
        }
        for odd in [f64::NAN, f64::INFINITY] {
            let clean = Array::draw(1, &[4, 1, 19]);
            let mut dirty = clean.clone();
            *dirty.at_mut(&[2, 0, 5]) = odd;
            let [gain, bias] = [2, 3].map(|seed| Array::draw(seed, &[19]).f32::<1>(device));
            for kind in ALL {
                let [before, after] = [&clean, &dirty].map(|rows| {
                    let leaf = rows.leaf::<3>(device, DType::F32);
                    let output = ours(kind, leaf.clone(), gain.clone(), bias.clone());
                    let loss = (output.clone() * output.clone()).sum();
                    let gradient = leaf.grad(&loss.backward()).expect("a leaf");
                    [output, gradient].map(Array::read)
                });
                for (before, after) in before.iter().zip(&after) {
                    let others = |all: &Array| all.masked_fill(0.0, |at| at[0] == 2);
                    assert!(after.at(&[2, 0, 5]).is_nan(), "{kind:?} {odd}");
                    assert_same(format!("{kind:?} {odd}"), &others(after), &others(before));
                }
            }
        }
    });
}

#[test]
fn no_rows_and_no_features() {
    device::each_training(|device| {
        for dims @ [.., size] in [[2, 0, 5], [0, 3, 4], [2, 3, 0]] {
            let input = || Tensor::<3>::zeros(dims, device).require_grad();
            let vector = || Tensor::<1>::ones([size], device);
            for kind in ALL {
                assert_eq!(ours(kind, input(), vector(), vector()).dims(), dims);
            }
        }
    });
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let input = Tensor::<2>::ones([2, 3], &device);
    let vector = |size: usize| Tensor::<1>::ones([size], &device);
    let refused = |expected: &str, gain: Tensor<1>, bias: Option<Tensor<1>>, epsilon: f64| {
        let message = panic_message(|| layer_norm(input.clone(), gain, bias, epsilon));
        assert_eq!(message, format!("layer_norm: {expected}"));
    };
    let expected = "last axis of the input expected 2, as the gain, got [2, 3]";
    refused(expected, vector(2), None, EPSILON);
    let expected = "bias expected [3], as the gain, got [4]";
    refused(expected, vector(3), Some(vector(4)), EPSILON);
    let expected = "epsilon expected a number from 0 on, got -1";
    refused(expected, vector(3), None, -1.0);
    let expected = "gain expected of type F32, as the input, got F64";
    refused(expected, vector(3).cast(DType::F64), None, EPSILON);
}
