//! Scoring functions of a user: the default methods of `ScoringFunction`.

use attention_core::position::Positions;
use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::{
    Array, Concatenation, MaskSpec, Path, Problem, SIZES, assert_close, assert_zero, device, masks,
};
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, activation};

const SHAPE: [usize; 4] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];

/// `q . k / sqrt(size)`, written by a user.
#[derive(Module, Debug)]
struct UserDotProduct {}

impl ScoringFunction for UserDotProduct {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let size = queries.dims()[3] as f64;
        queries.matmul(keys.swap_dims(2, 3)) / size.sqrt()
    }
}

/// Compares context, weights and the gradients of queries, keys and values; returns the weights.
fn check<A: ScoringFunction, B: ScoringFunction>(
    what: &str,
    [problem, other]: [&Problem; 2],
    (actual, expected): (A, B),
    (device, tolerance): (&Device, f64),
) -> Array {
    let (actual, expected) = (Attention::new(actual, 0.0), Attention::new(expected, 0.0));
    let [_, mut outcome] = Path::DIRECT.map(|path| {
        let actual = problem.run_with(&actual, device, DType::F32, path);
        let expected = other.run_with(&expected, device, DType::F32, path);
        for (name, expected) in expected.iter().filter(|(name, _)| !name.contains("score.")) {
            let what = format!("{what}: {path:?}: {name}");
            assert_close(&what, &actual[name], expected, tolerance);
        }
        actual
    });
    outcome.remove("weights").unwrap()
}

#[test]
fn a_users_dot_product_is_dot_product_attention() {
    device::each_training(|device| {
        for (name, mask) in masks(SHAPE) {
            let problem = Problem::dot_product(SIZES, mask);
            let scores = (UserDotProduct {}, DotProductScoreConfig::new().init());
            check(name, [&problem; 2], scores, (device, 3e-6));
        }
    });
}

#[test]
fn additive_attention_is_a_perceptron_on_the_concatenation() {
    device::each_training(|device| {
        for (name, mask) in masks(SHAPE) {
            let problem = Problem::additive(SIZES, mask);
            let [w_q, w_k, w_v] = ["W_q", "W_k", "w_v"].map(|name| &problem.inputs[name]);
            let rows = w_q.shape[0] + w_k.shape[0];
            let stacked = Array::new(&[rows, SIZES.hiddens], [&w_q.data[..], &w_k.data].concat());
            let concatenation = Concatenation {
                hidden: Param::from_tensor(stacked.f32(device)),
                output: Param::from_tensor(w_v.f32(device)),
            };
            let scores = (concatenation, problem.additive_score(device, DType::F32));
            check(name, [&problem; 2], scores, (device, 3e-6));
        }
    });
}

/// Keys are projected to twice themselves, queries to thrice: counts how often each happens.
#[derive(Module, Debug)]
struct Projecting {}

impl ScoringFunction for Projecting {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        queries * 3.0
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        keys * 2.0
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        queries.matmul(keys.swap_dims(2, 3))
    }
}

#[test]
fn projections_are_applied_once() {
    device::each(|device| {
        let problem = Problem::dot_product(SIZES, MaskSpec::lens(&[3, 6]));
        let mut scaled = problem.clone();
        scaled.scale = Some(6.0);
        let expected = &scaled.solve()["context"];
        let attention = Attention::new(Projecting {}, 0.0);
        let [queries, keys, values] = problem.f32::<4>(device);
        let mask = problem.mask.mask(device);
        let context = attention.forward(queries.clone(), keys.clone(), values.clone(), &mask);
        assert_close("forward", context, expected, 2e-5);
        let memory = attention.prepare(keys, values, mask);
        for _ in 0..2 {
            let context = attention.attend(queries.clone(), &memory, Mask::none());
            assert_close("attend", context, expected, 2e-5);
        }
    });
}

/// `-inf` for keys of odd number, as a user's own mask.
#[derive(Module, Debug)]
struct EvenKeys {}

impl ScoringFunction for EvenKeys {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let device = queries.device();
        let scores = queries.matmul(keys.swap_dims(2, 3));
        let odd = Array::from_fn(&[1, 1, 1, SIZES.keys], |at| (at[3] % 2) as f64);
        let odd = odd.bool::<4>(&device).expand(scores.dims());
        scores.mask_fill(odd, f64::NEG_INFINITY)
    }
}

#[test]
fn a_users_minus_infinity_is_a_mask() {
    device::each_training(|device| {
        let even = Array::from_fn(&[1, SIZES.keys], |at| f64::from(at[1] % 2 == 0));
        let even = MaskSpec::Keep(even);
        for mask in [MaskSpec::None, MaskSpec::lens(&[3, 6]), MaskSpec::Causal] {
            let problem = Problem::dot_product(SIZES, mask.clone());
            let masked = Problem::dot_product(SIZES, mask.and(even.clone()));
            let scores = (EvenKeys {}, EvenKeys {});
            let weights = check("even", [&problem, &masked], scores, (device, 1e-6));
            let odd = Array::from_fn(&weights.shape, |at| (at[3] % 2) as f64 * weights.at(at));
            assert_zero("odd keys", &odd);
        }
    });
}

/// A score with a bias that is trained, through the default `attend`.
#[derive(Module, Debug)]
struct Biased {
    bias: Param<Tensor<1>>,
}

impl ScoringFunction for Biased {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let scores = activation::relu(queries).matmul(keys.swap_dims(2, 3));
        scores + self.bias.val().reshape([1, 1, 1, SIZES.keys])
    }
}

#[test]
fn parameters_of_a_users_score_are_trained_saved_and_loaded() {
    device::each_training(|device| {
        let new = |seed| {
            let bias = Param::from_tensor(Array::draw(seed, &[SIZES.keys]).f32(device));
            Attention::new(Biased { bias }, 0.0)
        };
        let attention = new(1);
        let problem = Problem::dot_product(SIZES, MaskSpec::lens(&[3, 5]));
        let [queries, keys, values] = problem.f32::<4>(device);
        let mask = problem.mask.mask(device);
        let context = attention.forward(queries, keys, values, &mask);
        let received = problem.grad_context.as_ref().unwrap().f32(device);
        let gradients = (context * received).sum().backward();
        let gradient = Array::read(attention.score.bias.val().grad(&gradients).unwrap());
        // Keys 5 and 6 are padding; a constant on all scores changes nothing.
        let are_zeros = gradient.data.iter().map(|number| *number == 0.0);
        assert!(
            are_zeros.eq((0..SIZES.keys).map(|key| key >= 5)),
            "{gradient:?}"
        );
        let is_near = gradient.data.iter().sum::<f64>().abs() < 1e-5;
        assert!(is_near, "{gradient:?}");

        let loaded = new(2).load_record(attention.clone().into_record());
        let bias = |attention: &Attention<Biased>| Array::read(attention.score.bias.val());
        assert_eq!(bias(&loaded), bias(&attention));
    });
}
