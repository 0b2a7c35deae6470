//! Kernels of the distance with sum-normalized weights: Nadaraya-Watson regression.

use attention_core::score::{GaussianScoreConfig, Kernel, KernelScore, KernelScoreConfig};
use attention_core::{Attention, Mask, Normalizer};
use attention_tests::{
    Array, MaskSpec, Outcome, Path, Problem, Sizes, assert_close, assert_finite,
    assert_outcomes_close, assert_same, assert_zero, contract, device, masks, near_reference,
    panic_message, reference, refuses,
};
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};

const KERNELS: [(&str, Kernel); 5] = [
    ("gaussian", Kernel::Gaussian),
    ("box", Kernel::Box),
    ("epanechnikov", Kernel::Epanechnikov),
    ("triangular", Kernel::Triangular),
    ("constant", Kernel::Constant),
];

/// Queries with one component, as in regression on a line.
const LINE: Sizes = Sizes::new([2, 2, 3, 5], [1, 1, 0, 3]);

/// More components than distances by differences have.
const WIDE: Sizes = LINE.with_heads(0).with_query_size(9).with_key_size(9);

type Smoothing = Attention<KernelScore>;

fn smoothing(kernel: Kernel, width: f64) -> Smoothing {
    let score = KernelScoreConfig::new(kernel).with_width(width).init();
    Attention::new(score, 0.0).with_normalizer(Normalizer::SumNormalized)
}

#[test]
fn smoothing_in_few_dimensions_keeps_the_contract() {
    device::each_training(|device| {
        // All but the constant one, which has no distance.
        for (name, kernel) in &KERNELS[..4] {
            // No drawn distance is the width, where kernels have an edge and no derivative. The triangular one has
            // none at 0 either, where queries of one component happen to lie.
            let size = if *kernel == Kernel::Triangular { 2 } else { 1 };
            let sizes = LINE.with_query_size(size).with_key_size(size);
            contract::check(name, &smoothing(*kernel, 1.3), sizes, device);
        }
    });
}

#[test]
fn smoothing_in_many_dimensions_keeps_the_contract() {
    device::each_training(|device| {
        // They share the distance: one kernel of its square, one of its root.
        for kernel in [Kernel::Gaussian, Kernel::Triangular] {
            let name = format!("{kernel:?}");
            contract::check(&name, &smoothing(kernel, 4.7), WIDE, device);
        }
    });
}

#[test]
fn smoothing_is_that_of_pytorch() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        for file in ["kernel_smoothing", "kernel_smoothing_wide"] {
            let cases = reference(file);
            assert_eq!(cases.len(), KERNELS.len());
            for case in cases {
                let (_, kernel) = KERNELS.iter().find(|(name, _)| *name == case.name).unwrap();
                let (problem, expected) = case.problem();
                let (attention, path) = (smoothing(*kernel, 1.5), Path::ForwardWithWeights);
                let outcome = problem.run_with(&attention, device, dtype, path);
                let tolerance = near_reference(dtype, 2e-5);
                let what = format!("{file}: {}: {dtype:?}", case.name);
                assert_outcomes_close(&what, &outcome, &expected, tolerance);
            }
        }
    }));
}

#[test]
fn a_gaussian_kernel_is_the_gaussian_score_with_softmax() {
    device::each_training(|device| {
        let softmax = Attention::new(GaussianScoreConfig::new().with_width(1.3).init(device), 0.0);
        for sizes in [LINE, WIDE] {
            let shape = [2, sizes.heads.max(1), sizes.queries, sizes.keys];
            for (name, mask) in masks(shape).into_iter().step_by(4) {
                let problem = Problem::drawn(sizes, sizes.key_size, mask);
                let (path, dtype) = (Path::ForwardWithWeights, DType::F32);
                let smoothing = smoothing(Kernel::Gaussian, 1.3);
                let actual = problem.run_with(&smoothing, device, dtype, path);
                let expected = problem.run_with(&softmax, device, dtype, path);
                for (result, expected) in &expected {
                    let what = format!("{name}: {result}");
                    assert_close(&what, &actual[result], expected, 2e-5);
                }
            }
        }
    });
}

/// Context, weights and gradients of one query and keys at `places`, all `size` components alike.
fn at(attention: &Smoothing, query: f64, places: &[f64], size: usize, device: &Device) -> Outcome {
    let sizes = Sizes::new([1, 0, 1, places.len()], [size, size, 0, LINE.value_size]);
    let mut problem = Problem::drawn(sizes, size, MaskSpec::None).with_grad_weights(6);
    problem.set("queries", Array::full(&[1, 1, size], query));
    let keys = Array::from_fn(&[1, places.len(), size], |at| places[at[1]]);
    problem.set("keys", keys);
    problem.run_with(attention, device, DType::F32, Path::ForwardWithWeights)
}

#[test]
fn kernels_are_their_formulas() {
    device::each_training(|device| {
        let expected: [(Kernel, [f64; 3]); 5] = [
            (Kernel::Gaussian, [1.0, (-0.125f64).exp(), (-0.5f64).exp()]),
            (Kernel::Box, [1.0, 1.0, 0.0]),
            (Kernel::Epanechnikov, [1.0, 0.75, 0.0]),
            (Kernel::Triangular, [1.0, 0.5, 0.0]),
            (Kernel::Constant, [1.0, 1.0, 1.0]),
        ];
        for (kernel, values) in expected {
            // At distances of 0, half a width and a whole one.
            let outcome = at(&smoothing(kernel, 0.5), 0.25, &[0.25, 0.0, 0.75], 1, device);
            let sum: f64 = values.iter().sum();
            let expected = Array::from_fn(&[1, 1, 3], |at| values[at[2]] / sum);
            assert_close(format!("{kernel:?}"), &outcome["weights"], &expected, 1e-6);
        }
    });
}

#[test]
fn a_query_out_of_reach_of_all_keys_has_weights_0() {
    device::each_training(|device| {
        for kernel in [Kernel::Box, Kernel::Epanechnikov, Kernel::Triangular] {
            let outcome = at(&smoothing(kernel, 1.0), 9.0, &[0.0, 1.0, -1.0], 1, device);
            assert_eq!(outcome.len(), 5);
            for (name, result) in &outcome {
                assert_zero(format!("{kernel:?}: {name}"), result);
            }
        }
    });
}

#[test]
fn a_query_far_out_on_the_tail_has_weights_and_gradients() {
    device::each_training(|device| {
        // Scores of about 1e-32, whose square no f32 holds.
        let gaussian = smoothing(Kernel::Gaussian, 1.0);
        let outcome = at(&gaussian, 12.25, &[0.0, 0.125, 0.25], 1, device);
        let scores = [0.0, 0.125, 0.25].map(|key: f64| (-(12.25 - key).powi(2) / 2.0).exp());
        let sum: f64 = scores.iter().sum();
        let expected = Array::from_fn(&[1, 1, 3], |at| scores[at[2]] / sum);
        assert_close("weights", &outcome["weights"], &expected, 2e-5);
        for (name, result) in &outcome {
            assert_finite(name, result);
            assert!(result.magnitude() > 0.0, "{name}: {result:?}");
        }
    });
}

#[test]
fn at_distance_0_every_gradient_is_finite() {
    device::each_training(|device| {
        for (name, kernel) in KERNELS {
            for size in [1, 2, 9] {
                let smoothing = smoothing(kernel, 1.0);
                let outcome = at(&smoothing, 0.5, &[0.5, 0.5, 0.25], size, device);
                for (result, array) in &outcome {
                    assert_finite(format!("{name}: size {size}: {result}"), array);
                }
                // The key that the query lies on is no worse than its neighbour.
                let weights = &outcome["weights"].data;
                let holds = weights[0] >= weights[2] && weights[0] > 0.0;
                assert!(holds, "{name}: {weights:?}");
            }
        }
    });
}

#[test]
fn distances_of_few_components_do_not_cancel_far_from_the_origin() {
    device::each_training(|device| {
        for (name, kernel) in KERNELS {
            for size in [1, 8] {
                let attention = smoothing(kernel, 1.0);
                let keys = [0.0, 0.5, 0.125];
                let near = at(&attention, 0.25, &keys, size, device);
                let keys = keys.map(|place| 65536.0 + place);
                let far = at(&attention, 65536.25, &keys, size, device);
                for (result, near) in &near {
                    assert_same(format!("{name}: {size}: {result}"), &far[result], near);
                }
            }
        }
    });
}

#[test]
fn sum_normalized_weights_are_shares_of_the_unmasked_scores() {
    device::each(|device| {
        let rows = |rows: [[f64; 4]; 3]| Array::new(&[1, 1, 3, 4], rows.concat());
        let scores = rows([
            [1.0, 3.0, 4.0, f64::NAN],
            [0.0, 0.0, 0.0, f64::NAN],
            [5.0, 0.0, 0.0, 5.0],
        ]);
        let mask = MaskSpec::lens_per_query(1, &[3, 3, 4]).mask(device);
        let weights = Normalizer::SumNormalized.weights(scores.f32::<4>(device), &mask);
        let expected = rows([[0.125, 0.375, 0.5, 0.0], [0.0; 4], [0.5, 0.0, 0.0, 0.5]]);
        assert_close("shares", weights, &expected, 1e-6);
        let scores = Tensor::<4>::from_data([[[[1.0, f32::NEG_INFINITY, 3.0]]]], device);
        let weights = Normalizer::SumNormalized.weights(scores, &Mask::none());
        let expected = Array::new(&[1, 1, 1, 3], [0.25, 0.0, 0.75]);
        assert_close("minus infinity", weights, &expected, 1e-6);
        let none = Tensor::<4>::zeros([1, 1, 3, 0], device);
        let weights = Normalizer::SumNormalized.weights(none, &Mask::none());
        assert_eq!(weights.dims(), [1, 1, 3, 0]);
    });
}

#[test]
fn a_kernel_score_has_no_parameters_and_its_record_restores() {
    device::each(|device| {
        let attention = smoothing(Kernel::Box, 2.0);
        assert_eq!(attention.num_params(), 0);
        let record = attention.clone().into_record();
        let loaded = attention.clone().load_record(record);
        let run = |attention: &Smoothing| {
            let problem = Problem::drawn(LINE, 1, MaskSpec::None);
            let outcome = problem.run_with(attention, device, DType::F32, Path::Forward);
            outcome["context"].clone()
        };
        assert_same("record", &run(&loaded), &run(&attention));
    });
}

#[test]
fn bad_input_says_what_was_expected() {
    for width in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let config = KernelScoreConfig::new(Kernel::Box).with_width(width);
        refuses("width expected", || config.init());
    }
    device::each(|device| {
        let queries = Array::draw(1, &[1, 2, 3]).f32::<3>(device);
        let keys = Array::draw(2, &[1, 4, 5]).f32::<3>(device);
        let box_kernel = smoothing(Kernel::Box, 1.0);
        panic_message(|| box_kernel.forward(queries, keys.clone(), keys, Mask::none()));
    });
}

#[test]
fn the_gradient_of_a_masked_weight_reaches_no_score() {
    device::each_training(|device| {
        let mask = MaskSpec::lens(&[2]).mask(device);
        let run = |masked: f64| {
            let scores = Array::draw(1, &[1, 1, 2, 3]).map(f64::abs);
            let scores = scores.leaf::<4>(device, DType::F32);
            let weights = Normalizer::SumNormalized.weights(scores.clone(), &mask);
            let received = Array::from_fn(&[1, 1, 2, 3], |at| match at[3] {
                2 => masked,
                key => key as f64,
            });
            let loss = (weights * received.f32(device)).sum();
            Array::read(scores.grad(&loss.backward()).unwrap())
        };
        let expected = run(0.0);
        assert!(expected.magnitude() > 0.0);
        assert_same("gradient", &run(f64::NAN), &expected);
    });
}
