use burn::nn::{Linear, LinearConfig};
use burn::tensor::Device;

use super::*;
use crate::device::test_device;

/// The same layer twice, with gradients of these two elements in its weights and of one in its bias.
fn layers(dtype: DType, [a, b, bias]: [f64; 3]) -> (Vec<Linear>, GradientsParams) {
    let device = test_device();
    let layer = LinearConfig::new(2, 1).init(&device.clone().autodiff());
    let on_device = (&device, dtype);
    let mut gradients = GradientsParams::new();
    let weights = Tensor::<2>::from_data([[a], [b]], on_device);
    gradients.register(layer.weight.id, weights);
    let bias = Tensor::<1>::from_data([bias], on_device);
    gradients.register(layer.bias.as_ref().unwrap().id, bias);
    (vec![layer.clone(), layer], gradients)
}

type Clip = fn(GradientsParams, &Vec<Linear>, f32) -> Clipped;

/// The ways to clip gradients in f32 on this device: what `clip_by_norm` takes, and what it takes elsewhere.
const WAYS: [Clip; 3] = [
    |gradients, module, norm| clip_by_norm(gradients, module, norm, Squares::Scaled),
    |gradients, module, norm| composed::clip(gradients, module, norm, Squares::Scaled, DType::F32),
    |gradients, module, norm| composed::clip(gradients, module, norm, Squares::Plain, DType::F32),
];

/// Those whose norm is finite wherever the gradients are.
const EXACT_WAYS: &[Clip] = WAYS.split_at(2).0;

/// The gradients of weights and bias, and their norm before.
fn clipped(clip: Clip, dtype: DType, norm: f32, gradients: [f64; 3]) -> ([f64; 3], f64) {
    let (layers, gradients) = layers(dtype, gradients);
    let Clipped { gradients, norm } = clip(gradients, &layers, norm);
    let bias = layers[0].bias.as_ref().unwrap();
    let weights = gradients.get::<2>(layers[0].weight.id).unwrap();
    let bias = gradients.get::<1>(bias.id).unwrap();
    assert_eq!([weights.dtype(), bias.dtype()], [dtype; 2]);
    let weights: Vec<f64> = weights.into_data().iter().collect();
    let bias = bias.into_scalar::<f64>();
    ([weights[0], weights[1], bias], norm.read().unwrap())
}

#[track_caller]
fn assert_close(what: &str, actual: f64, expected: f64, tolerance: f64) {
    let close = (actual - expected).abs() <= tolerance * expected.abs();
    assert!(close, "{what}: {actual} is not {expected}");
}

/// Clips to a norm by some ways, which is expected to change the norm from one to the other and no direction.
#[track_caller]
fn check(ways: &[Clip], dtype: DType, [a, b, c]: [f64; 3], from: f64, to: f64, tolerance: f64) {
    for (way, &clip) in ways.iter().enumerate() {
        let (found, norm) = clipped(clip, dtype, to as f32, [a, b, c]);
        let what = format!("way {way}, {dtype:?}, {a:e} to {to:e}");
        assert_close(&what, norm, from, tolerance);
        for (found, expected) in found.into_iter().zip([a, b, c]) {
            assert_close(&what, found, expected / from * to, tolerance);
        }
    }
}

#[test]
fn a_larger_norm_of_all_together_becomes_the_one_asked_for() {
    check(&WAYS, DType::F32, [3.0, 0.0, 4.0], 5.0, 1.0, 1e-6);
    check(&WAYS, DType::F32, [3.0, 0.0, -4.0], 5.0, 4.9, 1e-6);
}

#[test]
fn gradients_whose_squares_overflow_are_clipped() {
    for size in [1e20, 1e30, 2e38] {
        let (gradients, norm) = ([size, 0.0, size], 2f64.sqrt() * size);
        check(EXACT_WAYS, DType::F32, gradients, norm, 1.0, 1e-6);
    }
    let (found, _) = clipped(WAYS[0], DType::F32, 1.0, [1e20, 1e20, 0.0]);
    for found in &found[..2] {
        assert_close("half of the norm", *found, 0.5f64.sqrt(), 1e-7);
    }
    // The norm itself is beyond f32.
    let largest = f64::from(f32::MAX);
    let norm = 3f64.sqrt() * largest;
    check(EXACT_WAYS, DType::F32, [largest; 3], norm, 1e-3, 1e-6);
}

#[test]
fn gradients_whose_squares_underflow_keep_their_norm() {
    let gradients = [3e-30, 0.0, 4e-30];
    for clip in EXACT_WAYS {
        let (found, norm) = clipped(*clip, DType::F32, 1.0, gradients);
        assert_close("the norm", norm, 5e-30, 1e-6);
        assert_close("the first", found[0], gradients[0], 1e-7);
    }
    // Where the norm is lost, it is still the lower one.
    let (found, norm) = clipped(WAYS[2], DType::F32, 1.0, gradients);
    assert!((norm, found[2]) == (0.0, f64::from(4e-30f32)));
    check(&WAYS, DType::F32, gradients, 5e-30, 1e-30, 1e-6);
    // The factor has too few digits in f32.
    check(EXACT_WAYS, DType::F32, [3e20, 0.0, 4e20], 5e20, 1e-20, 1e-6);
}

#[test]
fn gradients_in_half_precision_are_clipped_in_single() {
    for dtype in [DType::F16, DType::BF16] {
        // The squares of 300 and 400 are none of f16.
        check(&WAYS[..1], dtype, [300.0, 0.0, 400.0], 500.0, 1.0, 4e-3);
        check(&WAYS, dtype, [3.0, 0.0, 4.0], 5.0, 1.0, 4e-3);
    }
    let (gradients, norm) = ([1e20, 0.0, 1e20], 2f64.sqrt() * 1e20);
    check(EXACT_WAYS, DType::BF16, gradients, norm, 1.0, 8e-3);
}

#[test]
fn gradients_in_double_precision_are_clipped_in_it() {
    let ways = &WAYS[..1];
    check(ways, DType::F64, [3e200, 0.0, 4e200], 5e200, 1.0, 1e-7);
    check(ways, DType::F64, [3e-9, 0.0, 4e-9], 5e-9, 1e-9, 1e-7);
}

#[test]
fn a_smaller_norm_and_one_of_zero_change_nothing() {
    for clip in WAYS {
        for gradients in [[3.0, 0.0, 4.0], [-0.1, 0.7, 1e-38], [0.0; 3]] {
            let gradients = gradients.map(|x| f64::from(x as f32));
            let (found, norm) = clipped(clip, DType::F32, 5.5, gradients);
            assert_eq!(found, gradients);
            assert!(norm < 5.5);
        }
    }
}

#[test]
fn gradients_that_are_not_finite_stay_as_they_are() {
    for fault in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for clip in WAYS {
            let (found, norm) = clipped(clip, DType::F32, 1.0, [3.0, -5.0, fault]);
            assert!(!norm.is_finite(), "{fault}: a norm of {norm}");
            assert_eq!(format!("{found:?}"), format!("{:?}", [3.0, -5.0, fault]));
        }
    }
    // Finite, but not their plain squares: found out by who reads the norm.
    let (found, norm) = clipped(WAYS[2], DType::F32, 1.0, [1e20, 2.0, 3.0]);
    assert!(!norm.is_finite());
    assert_eq!(found, [f64::from(1e20f32), 2.0, 3.0]);
}

#[test]
fn no_gradients_stay_none() {
    let (layers, _) = layers(DType::F32, [1.0; 3]);
    for clip in WAYS {
        let Clipped { gradients, norm } = clip(GradientsParams::new(), &layers, 1.0);
        assert!(gradients.is_empty());
        assert_eq!(norm.read().unwrap(), 0.0);
    }
}

#[test]
fn a_parameter_without_elements_has_no_part_in_the_norm() {
    let device: Device = test_device();
    let layer = LinearConfig::new(0, 2).init(&device);
    for clip in WAYS {
        let mut gradients = GradientsParams::new();
        gradients.register(layer.weight.id, Tensor::<2>::zeros([0, 2], &device));
        let bias = Tensor::<1>::from_data([3.0, 4.0], &device);
        gradients.register(layer.bias.as_ref().unwrap().id, bias);
        let norm = clip(gradients, &vec![layer.clone()], 1.0).norm;
        assert_close("the norm", norm.read().unwrap(), 5.0, 1e-6);
    }
}

#[test]
fn the_first_parameter_whose_gradient_is_not_finite_is_named() {
    for (gradients, expected) in [
        ([1.0, 2.0, 3.0], None),
        ([1.0, 2.0, f64::NAN], Some("0.bias")),
        ([1.0, f64::INFINITY, f64::NAN], Some("0.weight")),
    ] {
        let (layers, gradients) = layers(DType::F32, gradients);
        assert_eq!(first_not_finite(&gradients, &layers).as_deref(), expected);
    }
}
