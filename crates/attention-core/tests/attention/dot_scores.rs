//! Bilinear, biaffine, projected, cosine and Gaussian scores, and the one with query-key normalization.

use attention_core::position::Positions;
use attention_core::score::{
    BiaffineScoreConfig, BilinearScoreConfig, CosineScoreConfig, DotProductScoreConfig,
    GaussianScoreConfig, ProjectedScoreConfig, QkNormScoreConfig,
};
use attention_core::{Attention, Mask, Normalizer, ScoringFunction};
use attention_tests::{
    Array, MaskSpec, Path, Problem, Sizes, assert_close, assert_finite, assert_outcomes_close,
    contract, device, panic_message, parameters, refuses,
};
use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

const SIZES: Sizes = Sizes::new([2, 2, 3, 5], [4, 4, 0, 3]);

const UNEQUAL: Sizes = SIZES.with_query_size(3).with_key_size(5);

fn attention<S: ScoringFunction>(score: S) -> Attention<S> {
    Attention::new(score, 0.0)
}

#[test]
fn attention_by_products_keeps_the_contract() {
    device::each_training(|device| {
        let plain = DotProductScoreConfig::new().init();
        contract::check("dot product", &attention(plain), SIZES, device);
        let bilinear = BilinearScoreConfig::new(3, 5).with_scale(0.7).init(device);
        contract::check("bilinear", &attention(bilinear), UNEQUAL, device);
        let qk_norm = QkNormScoreConfig::new(4).init(device);
        contract::check("query-key norm", &attention(qk_norm), SIZES, device);
    });
}

#[test]
fn biaffine_attention_keeps_the_contract() {
    device::each_training(|device| {
        let biaffine = || attention(BiaffineScoreConfig::new(3, 5).init(device));
        contract::check("biaffine", &biaffine(), UNEQUAL, device);
        let sigmoid = biaffine().with_normalizer(Normalizer::Sigmoid);
        let three_axes = UNEQUAL.with_heads(0);
        contract::check("biaffine, sigmoid", &sigmoid, three_axes, device);
    });
}

#[test]
fn biaffine_scores_are_the_formula() {
    device::each(|device| {
        let score = BiaffineScoreConfig::new(3, 5).init(device);
        let parameters = parameters::values(&score);
        let [m, v, u, b] = ["query.weight", "query.bias", "offset.weight", "offset.bias"]
            .map(|name| &parameters[name]);
        let problem = Problem::drawn(UNEQUAL, UNEQUAL.key_size, MaskSpec::None);
        let [q, k] = ["queries", "keys"].map(|name| &problem.inputs[name]);
        let queries = score.project_queries(q.f32::<4>(device), &Positions::consecutive(2));
        let keys = score.project_keys(k.f32::<4>(device), &Positions::consecutive(0));
        let scores = Array::read(score.score(queries, keys, &Mask::none()));
        let expected = Array::from_fn(&[2, 2, 3, 5], |at| {
            let query = |x: usize| q.at(&[at[0], at[1], at[2], x]);
            let key = |y: usize| k.at(&[at[0], at[1], at[3], y]);
            let pairs = (0..3).flat_map(|x| (0..5).map(move |y| [x, y]));
            let of_pairs: f64 = pairs.map(|[x, y]| query(x) * m.at(&[x, y]) * key(y)).sum();
            let of_query: f64 = (0..3).map(|x| u.at(&[x, 0]) * query(x)).sum();
            let of_key: f64 = (0..5).map(|y| v.at(&[y]) * key(y)).sum();
            of_pairs + of_query + of_key + b.at(&[0])
        });
        assert_close("scores", &scores, &expected, 1e-6);
    });
}

#[test]
fn projected_attention_keeps_the_contract_and_is_bilinear() {
    device::each_training(|device| {
        let projected = ProjectedScoreConfig::new(3, 5, 4).init(device);
        let mut bilinear = BilinearScoreConfig::new(3, 5).with_scale(0.5).init(device);
        let keys = projected.key.weight.val().transpose();
        let product = projected.query.weight.val().matmul(keys);
        bilinear.query.weight = Param::from_tensor(product.detach());
        contract::check("projected", &attention(projected.clone()), UNEQUAL, device);
        let problem = Problem::drawn(UNEQUAL, UNEQUAL.key_size, MaskSpec::Causal);
        let path = Path::ForwardWithWeights;
        let actual = problem.run_with(&attention(projected), device, DType::F32, path);
        let expected = problem.run_with(&attention(bilinear), device, DType::F32, path);
        for name in ["weights", "context", "grad queries", "grad keys"] {
            assert_close(name, &actual[name], &expected[name], 4e-6);
        }
    });
}

#[test]
fn cosine_attention_keeps_the_contract() {
    device::each_training(|device| {
        let config = CosineScoreConfig::new().with_temperature(3.0);
        contract::check("cosine", &attention(config.init(device)), SIZES, device);
        let fixed = config.with_learned(false).init(device);
        let three_axes = SIZES.with_heads(0);
        contract::check("cosine, fixed", &attention(fixed), three_axes, device);
    });
}

#[test]
fn gaussian_attention_keeps_the_contract() {
    device::each_training(|device| {
        let config = GaussianScoreConfig::new().with_width(1.5);
        contract::check("Gaussian", &attention(config.init(device)), SIZES, device);
        let learned = config.with_learned(true).init(device);
        let three_axes = SIZES.with_heads(0);
        contract::check("Gaussian, learned", &attention(learned), three_axes, device);
    });
}

#[test]
fn a_normalizer_that_is_no_softmax_gets_whole_scores() {
    device::each_training(|device| {
        let config = GaussianScoreConfig::new().with_learned(true);
        let sigmoid = attention(config.init(device)).with_normalizer(Normalizer::Sigmoid);
        contract::check("Gaussian, sigmoid", &sigmoid, SIZES, device);
    });
}

#[test]
fn records_restore_parameters() {
    device::each_training(|device| {
        let bilinear = || attention(BilinearScoreConfig::new(3, 5).init(device));
        contract::records_restore("bilinear", &bilinear(), bilinear(), UNEQUAL, device);
        let biaffine = || attention(BiaffineScoreConfig::new(3, 5).init(device));
        contract::records_restore("biaffine", &biaffine(), biaffine(), UNEQUAL, device);
        let config = CosineScoreConfig::new();
        let cosine = |of| attention(config.clone().with_temperature(of).init(device));
        contract::records_restore("cosine", &cosine(2.0), cosine(5.0), SIZES, device);
        let qk_norm = || attention(QkNormScoreConfig::new(4).init(device));
        let drawn = parameters::changed(qk_norm(), |_, gain| Array::draw(9, &gain.shape));
        contract::records_restore("query-key norm", &drawn, qk_norm(), SIZES, device);
        let config = GaussianScoreConfig::new().with_learned(true);
        let gaussian = |of| attention(config.clone().with_width(of).init(device));
        contract::records_restore("Gaussian", &gaussian(2.0), gaussian(1.0), SIZES, device);
    });
}

/// Every second query and key a vector of zeros.
fn with_zero_vectors(sizes: Sizes) -> Problem {
    let mut problem = Problem::drawn(sizes, sizes.key_size, MaskSpec::None);
    for name in ["queries", "keys"] {
        let drawn = &problem.inputs[name];
        problem.set(name, drawn.masked_fill(0.0, |at| at[2].is_multiple_of(2)));
    }
    problem
}

#[test]
fn the_cosine_with_a_zero_vector_is_0_without_a_gradient() {
    device::each_training(|device| {
        let problem = with_zero_vectors(SIZES);
        let attention = attention(CosineScoreConfig::new().init(device));
        let outcome = problem.run_with(&attention, device, DType::F32, Path::ForwardWithWeights);
        let weights = &outcome["weights"];
        for (name, rows) in [("grad queries", SIZES.queries), ("grad keys", SIZES.keys)] {
            // Queries and keys have the same size.
            for (flat, gradient) in outcome[name].data.iter().enumerate() {
                let row = flat / SIZES.key_size % rows;
                let is_even = row.is_multiple_of(2);
                assert_eq!(*gradient == 0.0, is_even, "{name}: {row}: {gradient}");
            }
        }
        let rows = Array::from_fn(&[SIZES.keys], |at| weights.at(&[0, 0, 0, at[0]]));
        let expected = Array::full(&[SIZES.keys], 1.0 / SIZES.keys as f64);
        assert_close("a zero query", &rows, &expected, 1e-6);
        // Zero keys have score 0: the same weight, of a query that is none.
        let [first, third] = [0, 2].map(|key| weights.at(&[1, 1, 1, key]));
        assert!((first - third).abs() < 1e-7, "{first} {third}");
        for (name, result) in &outcome {
            assert_finite(name, result);
        }
    });
}

#[test]
fn the_length_of_a_vector_does_not_change_its_cosine() {
    device::each(|device| {
        let problem = Problem::drawn(SIZES, SIZES.key_size, MaskSpec::None);
        let attention = attention(CosineScoreConfig::new().init(device));
        let run = |factor: f64| {
            let mut scaled = problem.clone();
            for name in ["queries", "keys"] {
                scaled.set(name, problem.inputs[name].map(|number| factor * number));
            }
            scaled.run_with(&attention, device, DType::F32, Path::Forward)["context"].clone()
        };
        for factor in [1e-15, 1e15] {
            assert_close("scaled", &run(factor), &run(1.0), 1e-5);
        }
    });
}

#[test]
fn normalized_queries_and_keys_have_bounded_scores() {
    device::each(|device| {
        let score = QkNormScoreConfig::new(SIZES.key_size).init(device);
        let bound = (SIZES.key_size as f64).sqrt() * (1.0 + 4.0 * device::epsilon(DType::F32));
        for factor in [0.0, 1e-12, 1.0, 1e12] {
            let problem = Problem::drawn(SIZES, SIZES.key_size, MaskSpec::None);
            let scaled = |name: &str| problem.inputs[name].map(|x| factor * x).f32::<4>(device);
            let [queries, keys] = ["queries", "keys"].map(scaled);
            let queries = score.project_queries(queries, &Positions::consecutive(2));
            let keys = score.project_keys(keys, &Positions::consecutive(0));
            let scores = Array::read(score.score(queries, keys, &Mask::none()));
            let largest = scores.magnitude();
            assert!(largest <= bound, "{factor}: {largest}");
            // Vectors far below epsilon are near 0, others reach near the bound.
            assert_eq!(largest > 0.3 * bound, factor >= 1.0, "{factor}: {largest}");
        }
    });
}

#[test]
fn norms_in_half_precision_do_not_overflow() {
    device::each(device::in_half_types(|(device, dtype)| {
        // The square of the norm is beyond the largest f16, 65504.
        let sizes = SIZES.with_query_size(64).with_key_size(64);
        let mut problem = Problem::drawn(sizes, 64, MaskSpec::None);
        problem.set("queries", problem.inputs["queries"].map(|x| 64.0 * x));
        let attention = attention(CosineScoreConfig::new().with_learned(false).init(device));
        let run = |dtype| problem.run_with(&attention, device, dtype, Path::Forward);
        let tolerance = 16.0 * device::epsilon(dtype);
        assert_outcomes_close("half", &run(dtype), &run(DType::F32), tolerance);
        // The inverse of the norm is beyond it.
        problem.set("queries", problem.inputs["queries"].map(|x| 1e-7 * x));
        let run = |dtype| problem.run_with(&attention, device, dtype, Path::Forward);
        assert!(run(dtype)["context"].data.iter().all(|x| x.is_finite()));
    }));
}

#[test]
fn the_width_of_a_gaussian_is_learned_or_fixed_alike() {
    device::each(|device| {
        let problem = Problem::drawn(SIZES, SIZES.key_size, MaskSpec::Causal);
        let config = GaussianScoreConfig::new().with_width(0.75);
        let [fixed, learned] = [false, true].map(|learned| {
            let attention = attention(config.clone().with_learned(learned).init(device));
            assert_eq!(attention.num_params(), usize::from(learned));
            problem.run_with(&attention, device, DType::F32, Path::ForwardWithWeights)
        });
        assert_outcomes_close("learned", &learned, &fixed, 1e-5);
    });
}

#[test]
fn prepared_keys_may_be_none() {
    device::each(|device| {
        let [keys, values] = [(); 2].map(|()| Tensor::<3>::zeros([2, 0, 4], device));
        let queries = Array::draw(1, &[2, 3, 4]).f32::<3>(device);
        let attention = attention(GaussianScoreConfig::new().init(device));
        let memory = attention.prepare(keys, values, Mask::none()).expand(1);
        let context = Array::read(attention.attend(queries, &memory, Mask::none()));
        assert_eq!(context, Array::full(&[2, 3, 4], 0.0));
    });
}

#[test]
fn bad_input_says_what_was_expected() {
    device::each(|device| {
        let bilinear = BilinearScoreConfig::new;
        let cosine = |temperature| CosineScoreConfig::new().with_temperature(temperature);
        let qk_norm = || QkNormScoreConfig::new(3);
        let gaussian = |width| GaussianScoreConfig::new().with_width(width);
        fn refused<T>(part: &str, init: impl FnOnce() -> T) {
            refuses([part, "expected", "got"], init);
        }
        refused("query_size", || bilinear(0, 3).init(device));
        refused("key_size", || bilinear(3, 0).init(device));
        refused("scale", || bilinear(3, 3).with_scale(f64::NAN).init(device));
        refused("key_size", || BiaffineScoreConfig::new(3, 0).init(device));
        refused("temperature", || cosine(-1.0).init(device));
        refused("temperature", || cosine(f64::INFINITY).init(device));
        refused("size", || QkNormScoreConfig::new(0).init(device));
        refused("epsilon", || qk_norm().with_epsilon(0.0).init(device));
        let scaled = qk_norm().with_scale(Some(f64::NAN));
        refused("scale", || scaled.init(device));
        refused("width", || gaussian(0.0).init(device));
        refused("width", || gaussian(f64::NAN).init(device));
        // Queries and keys of two sizes, where the score wants one.
        let queries = || Array::draw(1, &[1, 2, 3]).f32::<3>(device);
        let keys = || Array::draw(2, &[1, 4, 5]).f32::<3>(device);
        macro_rules! panics {
            ($($config:expr),*) => {$({
                let attention = attention($config.init(device));
                panic_message(|| attention.forward(queries(), keys(), keys(), Mask::none()));
            })*};
        }
        let cosine = CosineScoreConfig::new();
        panics!(gaussian(1.0), cosine, qk_norm(), bilinear(3, 4));
    });
}
