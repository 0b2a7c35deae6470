//! Each normalizer against a plain loop.

use attention_core::{Mask, Normalizer};
use attention_tests::{
    Array, MaskSpec, assert_all_close, assert_all_same, assert_close, assert_same, assert_zero,
    device, masks, normalizers, oracle, parameters,
};
use burn::tensor::{DType, Device, Tensor};

const SHAPE: [usize; 4] = [2, 3, 5, 7];

/// Weights, and the gradient of the scores when the weights receive `received`.
fn run(
    normalizer: Normalizer,
    scores: &Array,
    mask: &MaskSpec,
    received: &Array,
    device: &Device,
    dtype: DType,
) -> [Array; 2] {
    let scores = scores.leaf::<4>(device, dtype);
    let weights = normalizer.weights(scores.clone(), &mask.mask(device));
    assert_eq!(weights.dtype(), dtype);
    let loss = (weights.clone() * received.tensor(device, dtype)).sum();
    assert_eq!(loss.is_tracked(), normalizer != Normalizer::Hardmax);
    let gradients = loss.is_tracked().then(|| loss.backward());
    let gradient = parameters::gradient(&scores, gradients.as_ref());
    [Array::read(weights), gradient]
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        _ => 2e-6,
    }
}

/// Weights and gradient are as the loops give them.
fn check(normalizer: Normalizer, what: &str, scores: &Array, mask: &MaskSpec, device: &Device) {
    let received = Array::draw(2, &scores.shape);
    let weights = normalizers::weights(normalizer, scores, mask);
    let gradient = normalizers::gradient(normalizer, &weights, &received, mask);
    for dtype in device::dtypes(device) {
        let what = format!("{normalizer:?}: {what}: {dtype:?}");
        let actual = run(normalizer, scores, mask, &received, device, dtype);
        assert_close(&what, &actual[0], &weights, tolerance(dtype));
        let what = format!("{what}: gradient");
        assert_close(&what, &actual[1], &gradient, tolerance(dtype));
    }
}

#[test]
fn weights_and_gradients_are_those_of_the_loops_under_every_mask() {
    device::each_training(|device| {
        let scores = Array::draw(1, &SHAPE);
        for (name, mask) in masks(SHAPE) {
            for normalizer in normalizers::ALL {
                check(normalizer, name, &scores, &mask, device);
            }
        }
    });
}

#[test]
fn masked_weights_are_zero_and_rows_sum_to_one() {
    device::each(|device| {
        let scores = Array::draw(3, &SHAPE);
        for (name, mask) in masks(SHAPE) {
            let attended = mask.table(SHAPE);
            for normalizer in normalizers::ALL {
                let weights = normalizer.weights(scores.f32(device), &mask.mask(device));
                let weights = Array::read(weights);
                let masked = Array::from_fn(&SHAPE, |at| (1.0 - attended.at(at)) * weights.at(at));
                assert_zero(name, &masked);
                if normalizer == Normalizer::Sigmoid {
                    continue;
                }
                let rows = weights.data.chunks(SHAPE[3]);
                for (row, attended) in rows.zip(attended.data.chunks(SHAPE[3])) {
                    // Softmax leaves none out.
                    let least = attended.iter().map(|attended| match normalizer {
                        Normalizer::Softmax => attended * f64::MIN_POSITIVE,
                        _ => 0.0,
                    });
                    let mut weights = row.iter().zip(least);
                    assert!(weights.all(|(weight, least)| *weight >= least));
                    let error = row.iter().sum::<f64>() - f64::from(attended.contains(&1.0));
                    assert!(error.abs() < 1e-6, "{normalizer:?}: {name}: {row:?}");
                }
            }
        }
    });
}

#[test]
fn sparsemax_is_exact_however_many_keys_are_in_the_support() {
    device::each_training(|device| {
        for keys in [1, 2, 3, 64] {
            for scale in [0.0, 1.0 / 128.0, 0.25, 1.0, 64.0] {
                let scores = Array::draw(4, &[2, 1, 3, keys]).map(|number| number * scale);
                let what = format!("{keys} keys times {scale}");
                let (sparsemax, none) = (Normalizer::Sparsemax, MaskSpec::None);
                check(sparsemax, &what, &scores, &none, device);
            }
        }
    });
}

/// Scores for which a search for the support from below takes one step for each of `sizes`. The first size counts all
/// scores, the last the support. The scores that a step drops lie just above the threshold before it, where they delay
/// it most.
fn slow_scores(sizes: &[usize]) -> Vec<f64> {
    // Thresholds are -1 + t * excess, where `excess` is what the first one leaves above the sum of 1.
    let (mut t, mut excess) = (0.0, 1.0);
    let mut dropped = Vec::new();
    for pair in sizes.windows(2) {
        let (here, next) = (pair[0] as f64, pair[1] as f64);
        let step = excess / here;
        let margin = step / 1024.0;
        dropped.extend(vec![t + margin; pair[0] - pair[1]]);
        t += step;
        excess -= next * step + (here - next) * margin;
    }
    let above = 0.75;
    let first_excess = above / (1.0 - dropped.iter().sum::<f64>());
    let dropped = dropped.iter().map(|t| -1.0 + t * first_excess);
    dropped.chain([-1.0 + above, 0.0]).collect()
}

#[test]
fn sparsemax_finds_a_support_that_takes_many_steps() {
    let sizes = [64, 48, 36, 27, 20, 15, 11, 8, 6, 4, 3, 2];
    let row = slow_scores(&sizes);
    assert_eq!(row.len(), sizes[0]);
    // It does take them.
    let mut support = row.clone();
    for size in sizes {
        assert_eq!(support.len(), size);
        let threshold = (support.iter().sum::<f64>() - 1.0) / size as f64;
        support.retain(|score| *score > threshold);
    }
    device::each_training(|device| {
        // Forwards for one query, backwards for the other.
        let scores = Array::from_fn(&[1, 1, 2, 64], |at| match at[2] {
            0 => row[at[3]],
            _ => row[63 - at[3]],
        });
        let (sparsemax, none) = (Normalizer::Sparsemax, MaskSpec::None);
        check(sparsemax, "many steps", &scores, &none, device);
    });
}

#[test]
fn only_differences_of_scores_count() {
    device::each_training(|device| {
        let near = Array::draw(5, &SHAPE);
        // Multiples of 1/64 up to 2^17 are exact in f32.
        let far = near.map(|number| number + 100_000.0);
        let received = Array::draw(6, &SHAPE);
        let (sparsemax, none) = (Normalizer::Sparsemax, MaskSpec::None);
        let run = |scores| run(sparsemax, scores, &none, &received, device, DType::F32);
        assert_all_same("far from 0", &run(&far), &run(&near));
    });
}

#[test]
fn gradients_are_those_of_finite_differences() {
    device::each_training(|device| {
        // Off the grid, where no score lies on the edge of a support.
        let scores = Array::draw(7, &[1, 1, 3, 6]).map(|number| number * 0.37);
        let received = Array::draw(8, &[1, 1, 3, 6]);
        let mask = MaskSpec::Keep(Array::from_fn(&[3, 6], |at| f64::from(at[0] != at[1])));
        let all = normalizers::ALL.into_iter();
        for normalizer in all.filter(|&of| of != Normalizer::Hardmax) {
            let expected = oracle::differences(&scores, 1e-6, |scores| {
                normalizers::weights(normalizer, scores, &mask).dot(&received)
            });
            for dtype in device::dtypes(device) {
                let actual = run(normalizer, &scores, &mask, &received, device, dtype);
                let what = format!("{normalizer:?}: {dtype:?}");
                assert_close(&what, &actual[1], &expected, 2e-6);
            }
        }
    });
}

#[test]
fn equal_scores_share_in_sparsemax_and_the_first_wins_in_hardmax() {
    device::each(|device| {
        let rows = [
            [1.0, 1.0, 1.0, 1.0],
            [0.0, 2.0, -1.0, 2.0],
            [-7.0, -7.0, -9.0, -7.0],
            // The second is on the edge of the support.
            [1.0, 0.0, 0.0, -1.0],
        ];
        let scores = Array::from_fn(&[1, 1, 4, 4], |at| rows[at[2]][at[3]]);
        let weights = |normalizer: Normalizer, mask: &Mask| {
            Array::read(normalizer.weights(scores.f32(device), mask)).data
        };
        let third = 1.0 / 3.0;
        let expected = [
            [0.25, 0.25, 0.25, 0.25],
            [0.0, 0.5, 0.0, 0.5],
            [third, third, 0.0, third],
            [1.0, 0.0, 0.0, 0.0],
        ];
        let sparse = weights(Normalizer::Sparsemax, &Mask::none());
        for (actual, expected) in sparse.iter().zip(expected.as_flattened()) {
            assert!((actual - expected).abs() < 1e-7, "{sparse:?}");
        }
        let first = |at: [usize; 4]| {
            at.map(|at| [0, 1, 2, 3].map(|key| f64::from(key == at)))
                .concat()
        };
        let found = weights(Normalizer::Hardmax, &Mask::none());
        assert_eq!(found, first([0, 1, 0, 0]));
        let late = Array::from_fn(&[1, 4], |at| f64::from(at[1] > 1));
        let mask = MaskSpec::Keep(late).mask(device);
        assert_eq!(weights(Normalizer::Hardmax, &mask), first([2, 3, 3, 2]));
    });
}

#[test]
fn masked_scores_reach_neither_weights_nor_gradients() {
    device::each_training(|device| {
        let (scores, received) = (Array::draw(1, &SHAPE), Array::draw(2, &SHAPE));
        let drawn = ("drawn", MaskSpec::drawn(5, &SHAPE, 0.6));
        for (name, mask) in masks(SHAPE).into_iter().chain([drawn]) {
            let attended = mask.table(SHAPE);
            let fill = |of: &Array, number| of.masked_fill(number, |at| attended.at(at) == 0.0);
            for normalizer in normalizers::ALL {
                let run = |scores: &Array, received: &Array| {
                    run(normalizer, scores, &mask, received, device, DType::F32)
                };
                let clean = run(&scores, &received);
                let masked = Array::from_fn(&SHAPE, |at| (1.0 - attended.at(at)) * clean[1].at(at));
                assert_zero(name, &masked);
                for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3e38, -3e38] {
                    let what = format!("{normalizer:?}: {name}: {poison}");
                    let dirty_scores = run(&fill(&scores, poison), &received);
                    let dirty_gradient = run(&scores, &fill(&received, poison));
                    for dirty in [dirty_scores, dirty_gradient] {
                        assert_all_same(&what, &dirty, &clean);
                    }
                }
            }
        }
    });
}

#[test]
fn a_score_of_minus_infinity_masks_its_key() {
    device::each_training(|device| {
        let scores = Array::draw(1, &SHAPE);
        let received = Array::draw(2, &SHAPE);
        // The last query of each head is fully masked.
        let keep = |at: &[usize]| at[2] + 1 < SHAPE[2] && !(at[2] + at[3]).is_multiple_of(3);
        let infinite = scores.masked_fill(f64::NEG_INFINITY, |at| !keep(at));
        let keep = MaskSpec::Keep(Array::from_fn(&SHAPE, |at| f64::from(keep(at))));
        for other in [MaskSpec::None, MaskSpec::lens(&[4, 6]), MaskSpec::Causal] {
            for normalizer in normalizers::ALL {
                let run =
                    |scores, mask| run(normalizer, scores, mask, &received, device, DType::F32);
                let both = keep.clone().and(other.clone());
                let expected = run(&scores, &both);
                let actual = run(&infinite, &other);
                let what = format!("{normalizer:?}: {other:?}");
                if normalizer == Normalizer::Softmax {
                    assert_all_same(&what, &actual, &expected);
                }
                assert_close(&what, &actual[0], &expected[0], 1e-7);
                assert_close(&what, &actual[1], &expected[1], 1e-6);
            }
        }
    });
}

#[test]
fn a_nan_stays_with_its_query() {
    device::each_training(|device| {
        let scores = Array::draw(1, &SHAPE);
        let received = Array::draw(2, &SHAPE);
        let mask = MaskSpec::lens(&[5, 6]);
        for poison in [f64::NAN, f64::INFINITY] {
            let mut poisoned = scores.clone();
            *poisoned.at_mut(&[1, 2, 3, 1]) = poison;
            for normalizer in normalizers::ALL {
                let run = |scores| run(normalizer, scores, &mask, &received, device, DType::F32);
                let (clean, dirty) = (run(&scores), run(&poisoned));
                let what = format!("{normalizer:?}: {poison}");
                let in_row = |at: &[usize]| at[..3] == [1, 2, 3];
                for (clean, dirty) in clean.iter().zip(&dirty) {
                    let others = |array: &Array| array.masked_fill(0.0, in_row);
                    assert_same(&what, &others(dirty), &others(clean));
                }
                let keys = 0..SHAPE[3];
                let row: Vec<f64> = keys.map(|key| dirty[0].at(&[1, 2, 3, key])).collect();
                let expected = match (normalizer, poison.is_nan()) {
                    (Normalizer::Sigmoid, true) => vec![1],
                    (Normalizer::Sigmoid | Normalizer::Hardmax, false) => vec![],
                    // The last key is masked.
                    _ => vec![0, 1, 2, 3, 4, 5],
                };
                let nan: Vec<usize> = (0..SHAPE[3]).filter(|&key| row[key].is_nan()).collect();
                assert_eq!(nan, expected, "{what}: {row:?}");
                if expected.is_empty() {
                    assert_eq!(row[1], 1.0, "{what}: {row:?}");
                }
                assert_eq!(row[6], 0.0, "{what}: {row:?}");
            }
        }
    });
}

#[test]
fn sizes_of_zero_and_one() {
    device::each_training(|device| {
        for normalizer in normalizers::ALL {
            for axis in 0..4 {
                let mut shape = SHAPE;
                shape[axis] = 0;
                let scores = Tensor::<4>::zeros(shape, device);
                let weights = normalizer.weights(scores, &Mask::causal());
                assert_eq!(weights.dims(), shape);
            }
            let one = Array::full(&[1, 1, 1, 1], 0.5);
            check(normalizer, "one", &one, &MaskSpec::None, device);
            check(normalizer, "none", &one, &MaskSpec::lens(&[0]), device);
        }
    });
}

#[test]
fn half_precision_rounds_once() {
    device::each(device::in_half_types(|(device, dtype)| {
        let scores = Array::draw(9, &SHAPE);
        let mask = MaskSpec::lens(&[0, 5]);
        for normalizer in [Normalizer::Sparsemax, Normalizer::Hardmax] {
            let weights = normalizer.weights(scores.tensor(device, dtype), &mask.mask(device));
            assert_eq!(weights.dtype(), dtype);
            let expected = normalizers::weights(normalizer, &scores, &mask);
            assert_close("half", weights, &expected, device::epsilon(dtype));
        }
    }));
}

/// Far out on the tail of a kernel some scores underflow beside others that just do not.
#[test]
fn what_underflows_has_no_gradient() {
    device::each_training(|device| {
        let scores = Array::new(&[1, 1, 1, 2], [-87.0, -110.0]);
        let received = Array::new(&[1, 1, 1, 2], [1000.0, 3.0]);
        let (none, dtype) = (MaskSpec::None, DType::F32);
        let run =
            |normalizer, scores: &Array| run(normalizer, scores, &none, &received, device, dtype);
        let expected = [
            Array::new(&[1, 1, 1, 2], [1.0, 0.0]),
            Array::full(&[1, 1, 1, 2], 0.0),
        ];
        let found = run(Normalizer::NormalizedSigmoid, &scores);
        assert_all_close("normalized sigmoid", &found, &expected, 1e-6);
        let found = run(
            Normalizer::SumNormalized,
            &Array::new(&[1, 1, 1, 2], [1.3e-38, 0.0]),
        );
        assert_all_close("sum", &found, &expected, 1e-6);
    });
}

#[test]
fn normalizers_are_read_by_their_names() {
    let others = [Normalizer::NormalizedSigmoid, Normalizer::SumNormalized];
    for normalizer in normalizers::ALL.into_iter().chain(others) {
        assert_eq!(normalizer.to_string().parse(), Ok(normalizer));
    }
    let error = "soft max".parse::<Normalizer>().unwrap_err().to_string();
    let expected = "one of softmax, sigmoid, normalized_sigmoid, sparsemax, hardmax, sum_normalized expected, got \
                    \"soft max\"";
    assert_eq!(error, expected);
}
