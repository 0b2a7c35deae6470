//! Scores and logits at the ends of the range of their type: what they have in common must not count, nor take the rest
//! with it.

use attention_core::score::{AdditiveScoreConfig, DotProductScoreConfig};
use attention_core::{Attention, Mask, Normalizer, ScoringFunction, masked_softmax};
use attention_tests::{
    Array, MaskSpec, Path, Problem, Sizes, assert_close, assert_same, assert_zero, device,
    parameters,
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::{ClassTargets, linear_cross_entropy};

/// The largest number of a type, whose products and sums of two are infinite.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

/// Equal numbers from one end of the range to the other.
fn ends(dtype: DType) -> [f64; 5] {
    let largest = largest(dtype);
    [-largest, -0.9 * largest, 1e30, 0.9 * largest, largest]
}

#[test]
fn the_loss_of_equal_logits_is_the_logarithm_of_their_number() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let vector =
            |elements: &[f64]| Array::new(&[elements.len()], elements).tensor::<1>(device, dtype);
        let loss = |logits: [f64; 3], target: i64| {
            let zeros = Tensor::<2>::zeros([1, 1], (device, dtype));
            let weight = Tensor::<2>::zeros([1, 3], (device, dtype));
            let bias = vector(&logits).require_grad();
            let target = Tensor::from_ints([target], device);
            let target = ClassTargets::new(target, vector(&[1.0]));
            let (loss, _) = linear_cross_entropy(zeros, weight, Some(bias.clone()), target);
            let gradient = bias.grad(&loss.clone().backward()).unwrap();
            (Array::read(loss).data[0], Array::read(gradient).data)
        };
        for logit in ends(dtype) {
            let (loss, gradient) = loss([logit; 3], 1);
            let rounding = 8.0 * device::epsilon(dtype);
            assert!((loss - 3_f64.ln()).abs() < rounding, "{logit:e}: {loss}");
            for (gradient, expected) in gradient.iter().zip([1.0, -2.0, 1.0]) {
                assert!((3.0 * gradient - expected).abs() < rounding, "{logit:e}");
            }
        }
        let most = 0.5 * largest(dtype);
        let expected = [(0.0, [0.0, 0.0, 0.0]), (most, [1.0, -1.0, 0.0])];
        for (target, (expected, of_logits)) in (0..).zip(expected) {
            let (loss, gradient) = loss([most, 0.0, -most], target);
            assert_eq!((loss, &gradient[..]), (expected, &of_logits[..]));
        }
    }));
}

#[test]
fn weights_of_equal_scores_are_equal() {
    device::each(device::in_each_type(|(device, dtype)| {
        let drop = Array::new(&[1, 4], [1.0, 0.0, 0.0, 0.0]);
        let mask = Mask::padding(drop.bool(device));
        for score in ends(dtype) {
            let scores = || Array::full(&[1, 1, 1, 4], score).tensor::<4>(device, dtype);
            let check = |what: &str, weights: Tensor<4>, expected: [f64; 4]| {
                let expected = Array::new(&[1, 1, 1, 4], expected);
                let rounding = 4.0 * device::epsilon(dtype);
                assert_close(format!("{what} of {score:e}"), weights, &expected, rounding);
            };
            let third = [0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0];
            check("softmax", masked_softmax(scores(), &mask), third);
            let weights = |normalizer: Normalizer| normalizer.weights(scores(), &mask);
            check("sparsemax", weights(Normalizer::Sparsemax), third);
            let name = "hardmax";
            check(name, weights(Normalizer::Hardmax), [0.0, 1.0, 0.0, 0.0]);
            let whole = f64::from(score > 0.0);
            let sigmoid = weights(Normalizer::Sigmoid);
            check("sigmoid", sigmoid, [0.0, whole, whole, whole]);
            if score > 0.0 {
                check("sum-normalized", weights(Normalizer::SumNormalized), third);
            }
        }
    }));
}

/// Contexts and gradients of queries whose keys are all alike: each has the same weight, in the backward pass too.
fn keys_alike<S: ScoringFunction>(what: &str, score: S, of: [f64; 2], on: (&Device, DType)) {
    let attention = Attention::new(score, 0.0);
    // One query is a step of a decoder; the others are more than such a step has.
    for queries in [1, 23] {
        let sizes = Sizes::new([2, 1, queries, 5], [1, 1, 0, 3]);
        let mut problem = Problem::drawn(sizes, 1, MaskSpec::lens(&[5, 3]));
        for (name, value) in ["queries", "keys"].into_iter().zip(of) {
            let shape = problem.inputs[name].shape.clone();
            problem.set(name, Array::full(&shape, value));
        }
        for path in Path::ALL {
            let what = format!("{what}: {queries} queries, {path:?}");
            let results = problem.run_with(&attention, on.0, on.1, path);
            let received = problem.grad_context.as_ref().unwrap().with_heads();
            let of_values = Array::from_fn(&[2, 1, 5, 3], |at| {
                let of_query = |query| received.at(&[at[0], 0, query, at[3]]);
                let (sum, len) = ((0..queries).map(of_query).sum::<f64>(), [5, 3][at[0]]);
                if at[2] < len { sum / len as f64 } else { 0.0 }
            });
            let rounding = 32.0 * device::epsilon(on.1);
            let gradient = results["grad values"].with_heads();
            assert_close(&what, &gradient, &of_values, rounding);
        }
    }
}

#[test]
fn gradients_know_the_weights_of_very_large_scores() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let on = (device, dtype);
        // As far as the kernel of additive attention promises.
        let most = 0.3 * largest(dtype);
        let dot = || DotProductScoreConfig::new().with_scale(Some(1.0)).init();
        for key in [most, -most, 1e20, 1e-3] {
            keys_alike("dot product", dot(), [1.0, key], on);
            // Hidden units are 1 to rounding.
            let score = AdditiveScoreConfig::new(1, 1, 1).init(device);
            let score = parameters::cast(score, dtype);
            let score = parameters::changed(score, |path, parameter| {
                let value = if path == "value.weight" { key } else { 20.0 };
                Array::full(&parameter.shape, value)
            });
            keys_alike("additive", score, [1.0, 1.0], on);
        }
    }));
}

/// A score below all others of its query by more than the type can hold has weight 0, and no gradient is lost by it.
#[test]
fn scores_of_both_ends_have_the_weights_0_and_1() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let most = largest(dtype);
        let scores = Array::new(&[1, 1, 1, 3], [-most, most, 0.0]);
        let scores = scores.leaf::<4>(device, dtype);
        let weights = masked_softmax(scores.clone(), &Mask::none());
        let expected = Array::new(&[1, 1, 1, 3], [0.0, 1.0, 0.0]);
        assert_same("weights", weights.clone(), &expected);
        let received = Array::draw(1, &[1, 1, 1, 3]).tensor::<4>(device, dtype);
        let gradient = scores.grad(&(weights * received).sum().backward()).unwrap();
        assert_zero("gradient", gradient);
    }));
}
