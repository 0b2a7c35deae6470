//! Half precision: no worse than twice the plain composition of Burn's operations.

use attention_core::score::{DotProductScoreConfig, GaussianScoreConfig};
use attention_core::{Attention, Mask, Normalizer, masked_softmax};
use attention_tests::{Array, MaskSpec, Path, Problem, SIZES, device};
use burn::tensor::{DType, Tensor};

use super::precision_grid::{error, plain};

#[test]
fn half_precision_errs_at_most_twice_as_much_as_the_plain_composition() {
    device::each(device::in_half_types(|(device, dtype)| {
        let training = device.clone().autodiff();
        let exact = device::plain()[0].clone();
        assert!(device::computes(&exact, DType::F64));
        for (kind, problem) in Problem::both(SIZES, &MaskSpec::None) {
            let oracle = problem.run(&exact.clone().autodiff(), DType::F64, Path::Forward);
            let plain = plain(&problem, (&training, dtype), false);
            let outcome = problem.run(&training, dtype, Path::Forward);
            for (result, plain) in &plain {
                let factor = if result == "context" { 2.0 } else { 3.0 };
                let of_plain = error(plain, &oracle[result]);
                let ours = error(&outcome[result], &oracle[result]);
                // One rounding of the largest element is nobody's fault.
                let bound = factor * of_plain + device::epsilon(dtype) * oracle[result].magnitude();
                let what = format!("{kind}: {dtype:?}: {result}");
                assert!(ours <= bound, "{what}: {ours:e} > {bound:e}");
                assert!(ours != 0.0, "{what} is exact: not computed in this type");
            }
        }
    }));
}

#[test]
fn half_precision_masks_as_f32_does() {
    let shape = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    device::each(device::in_half_types(|(device, dtype)| {
        for (name, mask) in attention_tests::masks(shape) {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                let expected = problem.solve();
                let outcome = problem.run(device, dtype, Path::ForwardWithWeights);
                for (result, expected) in &expected {
                    let bound = 16.0 * device::epsilon(dtype) * expected.magnitude();
                    let ours = error(&outcome[result], expected);
                    let what = format!("{kind}: {name}: {dtype:?}: {result}");
                    assert!(ours <= bound, "{what}: {ours:e} > {bound:e}");
                }
                let weights = &outcome["weights"].data;
                for (weight, attended) in weights.iter().zip(&mask.table(shape).data) {
                    let holds = *attended == 1.0 || *weight == 0.0;
                    assert!(holds, "{kind}: {name}: a masked weight of {weight}");
                }
                let padding = mask.padding(shape);
                let dirty = problem.with_rows("keys", &padding, f64::NAN);
                let dirty = dirty.with_rows("values", &padding, f64::NAN);
                let dirty = dirty.run(device, dtype, Path::ForwardWithWeights);
                attention_tests::assert_outcomes_same(name, &dirty, &outcome);
            }
        }
    }));
}

#[test]
fn softmax_in_half_precision_accumulates_in_f32() {
    // 4096 equal weights of 2^-12: a sum in f16 or bf16 would stop growing long before.
    device::each(device::in_half_types(|(device, dtype)| {
        let zeros = Tensor::<3>::zeros([1, 1, 4096], (device, dtype));
        let weights = masked_softmax(zeros, &MaskSpec::None.mask(device));
        assert_eq!(weights.dtype(), dtype);
        assert_eq!(Array::read(weights).data, [2f64.powi(-12); 4096]);
    }));
}

/// `|k|^2 / 2` is beyond f16 and far beyond its precision; the distances are not.
#[test]
fn a_gaussian_in_half_precision_does_not_overflow() {
    device::each(device::in_half_types(|(device, dtype)| {
        let attention = Attention::new(GaussianScoreConfig::new().init(device), 0.0);
        let rows = |rows: &[f64]| Array::new(&[1, rows.len(), 1], rows).tensor::<3>(device, dtype);
        let (queries, keys) = (rows(&[384.0]), rows(&[382.0, 384.0, 386.0]));
        let values = rows(&[-1.0, 0.0, 2.0]);
        let near = (-2.0_f64).exp();
        let expected = [near, 1.0, near].map(|weight| weight / (1.0 + 2.0 * near));
        let (q, k, v) = (queries.clone(), keys.clone(), values.clone());
        let softmax = attention.forward_with_weights(q.clone(), k.clone(), v.clone(), Mask::none());
        let context = attention.forward(q, k, v, Mask::none());
        let sparse = attention.with_normalizer(Normalizer::Sparsemax);
        let sparse = sparse.forward_with_weights(queries, keys, values, Mask::none());
        let bound = 4.0 * device::epsilon(dtype);
        let close = |what: &str, actual: Tensor<3>, expected: &[f64]| {
            let actual = Array::read(actual).data;
            let pairs = actual.iter().zip(expected);
            let is_close = pairs.clone().all(|(a, e)| (a - e).abs() <= bound);
            assert!(is_close, "{dtype:?}: {what}: {actual:?} for {expected:?}");
        };
        close("weights", softmax.weights, &expected);
        close("context with weights", softmax.context, &[expected[2]]);
        close("context", context, &[expected[2]]);
        close("sparsemax", sparse.weights, &[0.0, 1.0, 0.0]);
    }));
}

/// Normalizers that jump where two scores are near each other get scores as precise as in f32.
#[test]
fn weights_that_jump_are_those_of_f32() {
    device::each(device::in_half_types(|(device, dtype)| {
        for normalizer in [Normalizer::Hardmax, Normalizer::Sparsemax] {
            let score = DotProductScoreConfig::new().init();
            let attention = Attention::new(score, 0.0).with_normalizer(normalizer);
            // Rows so near each other that their scores are one number in half precision.
            let rows = |seed, len| {
                let rows = Array::draw(seed, &[2, len, 5]).map(|x| 4.0 + x / 64.0);
                rows.tensor::<3>(device, dtype)
            };
            let inputs = [rows(1, 7), rows(2, 11), rows(3, 11)];
            let run = |[queries, keys, values]: [Tensor<3>; 3]| {
                attention.forward_with_weights(queries, keys, values, Mask::none())
            };
            let half = run(inputs.clone()).weights;
            let wide = run(inputs.map(|input| input.cast(DType::F32))).weights;
            assert_eq!(half.dtype(), dtype);
            let [half, expected] = [half, wide.cast(dtype)].map(Array::read);
            assert_eq!(half, expected, "{normalizer:?}, {dtype:?}");
        }
    }));
}

#[test]
fn large_scores_in_half_precision_do_not_overflow() {
    device::each(device::in_half_types(|(device, dtype)| {
        for offset in [-60000.0_f64, 60000.0] {
            let step = 512.0 * offset.signum();
            let scores = Array::from_fn(&[1, 3, 5], |at| offset - at[2] as f64 * step);
            let weights = masked_softmax(scores.tensor::<3>(device, dtype), &Mask::none());
            let largest = if offset > 0.0 { 0 } else { 4 };
            let expected: [f64; 5] = std::array::from_fn(|at| f64::from(at == largest));
            for row in Array::read(weights).data.chunks(5) {
                assert_eq!(row, expected);
            }
        }
    }));
}
