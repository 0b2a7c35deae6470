//! Attention by every further score beside PyTorch's: normalised additive, concat, bilinear, projected, cosine,
//! Gaussian, and that with query-key normalization.

use attention_core::position::Positions;
use attention_core::score::{
    AdditiveScoreConfig, BilinearScoreConfig, ConcatScoreConfig, CosineScoreConfig,
    GaussianScoreConfig, ProjectedScoreConfig, QkNormScoreConfig,
};
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::{
    Array, Concatenation, MaskSpec, Path, Problem, SIZES, assert_close, assert_outcomes_close,
    device, masks, near_reference, parameters, reference,
};
use burn::module::Param;
use burn::tensor::{DType, Device};

/// Both cases of most files.
const CASES: [&str; 2] = ["valid_lens_1d", "valid_lens_2d_weights_loss"];

/// The names of parameters, in the reference and here.
type Names<'a> = &'a [(&'a str, &'a str)];

/// The parameters of normalised additive attention, in the reference and here.
const NORMALISED: [(&str, &str); 5] = [
    ("W_q", "score.query.weight"),
    ("W_k", "score.key.weight"),
    ("w_v", "score.value.weight"),
    ("b", "score.query.bias"),
    ("g", "score.gain"),
];

/// The names of concat attention's parameters.
const CONCAT: [(&str, &str); 3] = [
    ("hidden", "score.hidden.weight"),
    ("value", "score.value.weight"),
    ("hidden.bias", "score.hidden.bias"),
];

/// The attention with the parameters of a problem; `names` are their paths, in the problem and here.
fn attention_of<S: ScoringFunction>(score: S, problem: &Problem, names: Names) -> Attention<S> {
    parameters::changed(Attention::new(score, 0.0), |path, old| {
        let named = names.iter().find(|(_, ours)| *ours == path);
        let (theirs, _) = named.unwrap_or_else(|| panic!("{path}: not in the reference"));
        // PyTorch's g is a matrix of one element.
        problem.inputs[*theirs].reshape(&old.shape)
    })
}

/// Compares with PyTorch's outputs and gradients.
fn check_reference<S: ScoringFunction>(
    file: &str,
    cases: &[&str],
    score: impl Fn(&Device) -> S,
    names: Names,
) {
    let cases = cases.iter().map(|name| {
        let mut all = reference(file).into_iter();
        all.find(|case| case.name == *name).unwrap()
    });
    for case in cases {
        device::each_training(device::in_each_type(|(device, dtype)| {
            let (problem, mut expected) = case.problem();
            let attention = attention_of(score(device), &problem, names);
            let attention = parameters::cast(attention, dtype);
            for (theirs, ours) in names {
                let gradient = expected.remove(&format!("grad {theirs}")).unwrap();
                let shape = &parameters::values(&attention)[*ours].shape;
                expected.insert(format!("grad {ours}"), gradient.reshape(shape));
            }
            // Context, weights, and the gradients of three inputs and of each parameter.
            assert_eq!(expected.len(), 5 + names.len());
            let tolerance = near_reference(dtype, 2e-5);
            let what = format!("{file}: {}: {dtype:?}", case.name);
            if let Some(theirs) = case.outputs.get("scores") {
                let [queries, keys] = ["queries", "keys"]
                    .map(|name| problem.inputs[name].with_heads().tensor::<4>(device, dtype));
                let score = &attention.score;
                let queries = score.project_queries(queries, &Positions::consecutive(0));
                let keys = score.project_keys(keys, &Positions::consecutive(0));
                let scores = score.score(queries, keys, &Mask::none());
                let what = format!("{what}: scores");
                assert_close(what, scores, &theirs.with_heads(), tolerance);
            } else {
                assert_eq!(file, "additive_family");
            }
            let run = |path| problem.run_with(&attention, device, dtype, path);
            for path in [Path::ForwardWithWeights, Path::AttendWithWeights] {
                let outcome = run(path);
                assert_eq!(outcome.len(), expected.len());
                let what = format!("{what}: {path:?}");
                assert_outcomes_close(what, &outcome, &expected, tolerance);
            }
            if problem.grad_weights.is_none() {
                expected.remove("weights");
                for path in [Path::Forward, Path::Attend] {
                    let what = format!("{what}: {path:?}");
                    assert_outcomes_close(what, &run(path), &expected, tolerance);
                }
            }
        }));
    }
}

#[test]
fn normalised_additive_attention_is_that_of_pytorch() {
    let [queries, keys, hiddens] = sizes("normalized", "W_q");
    let config = AdditiveScoreConfig::new(queries, keys, hiddens).with_normalize(true);
    let score = |device: &Device| config.init(device);
    check_reference("additive_family", &["normalized"], score, &NORMALISED);
}

/// The features of queries, of keys, and of hidden units, of which a parameter has one in each column.
fn sizes(name: &str, parameter: &str) -> [usize; 3] {
    let cases = reference("additive_family");
    let case = cases.iter().find(|case| case.name == name).unwrap();
    let (case, _) = case.problem();
    ["queries", "keys", parameter].map(|name| *case.inputs[name].shape.last().unwrap())
}

#[test]
fn concat_attention_is_that_of_pytorch() {
    for (name, has_bias) in [("concat", false), ("concat_bias", true)] {
        let [queries, keys, hiddens] = sizes(name, "hidden");
        let config = ConcatScoreConfig::new(queries, keys, hiddens).with_bias(has_bias);
        let score = |device: &Device| config.init(device);
        let names = &CONCAT[..2 + usize::from(has_bias)];
        check_reference("additive_family", &[name], score, names);
    }
}

#[test]
fn bilinear_attention_is_that_of_pytorch() {
    let score = |device: &Device| BilinearScoreConfig::new(3, 4).init(device);
    let parameter = [("query", "score.query.weight")];
    check_reference("bilinear", &CASES, score, &parameter);
}

#[test]
fn projected_attention_is_that_of_pytorch() {
    let score = |device: &Device| ProjectedScoreConfig::new(3, 4, 5).init(device);
    let parameters = [("query", "score.query.weight"), ("key", "score.key.weight")];
    check_reference("projected", &CASES, score, &parameters);
}

#[test]
fn cosine_attention_is_that_of_pytorch() {
    let score = |device: &Device| CosineScoreConfig::new().init(device);
    let parameter = [("temperature", "score.temperature")];
    check_reference("cosine", &CASES, score, &parameter);
    let fixed = CosineScoreConfig::new().with_temperature(4.0);
    let fixed = fixed.with_learned(false);
    check_reference("cosine", &["fixed_4"], |device| fixed.init(device), &[]);
}

#[test]
fn attention_with_query_key_normalization_is_that_of_pytorch() {
    let score = |device: &Device| QkNormScoreConfig::new(4).init(device);
    let gains = [("query", "score.query"), ("key", "score.key")];
    check_reference("qk_norm", &CASES, score, &gains);
}

#[test]
fn gaussian_attention_is_that_of_pytorch() {
    let score = |device: &Device| GaussianScoreConfig::new().with_learned(true).init(device);
    let parameter = [("inverse_width", "score.inverse_width")];
    check_reference("gaussian", &CASES, score, &parameter);
    let fixed = |device: &Device| GaussianScoreConfig::new().with_width(1.5).init(device);
    check_reference("gaussian", &["fixed_1.5"], fixed, &[]);
}

/// A problem with every parameter of additive and concat attention.
fn drawn(mask: MaskSpec) -> Problem {
    let mut problem = Problem::additive(SIZES, mask);
    let hiddens = SIZES.hiddens;
    let both = SIZES.query_size + SIZES.key_size;
    let fourth = |number: f64| number / 4.0;
    problem.set("hidden", Array::draw(21, &[both, hiddens]).map(fourth));
    problem.set("hidden.bias", Array::draw(22, &[hiddens]));
    problem.set("value", Array::draw(23, &[hiddens, 1]));
    problem.set("b", Array::draw(24, &[hiddens]));
    problem.set("g", Array::full(&[1], 1.5));
    problem
}

fn concat() -> ConcatScoreConfig {
    ConcatScoreConfig::new(SIZES.query_size, SIZES.key_size, SIZES.hiddens)
}

#[test]
fn the_split_form_is_the_concatenation() {
    device::each_training(|device| {
        for (name, mask) in masks([SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys]) {
            let problem = drawn(mask);
            let parameter = |name: &str| Param::from_tensor(problem.inputs[name].f32(device));
            let (hidden, output) = (parameter("hidden"), parameter("value"));
            let plain = Attention::new(Concatenation { hidden, output }, 0.0);
            let split = attention_of(concat().init(device), &problem, &CONCAT);
            let plain = problem.run_with(&plain, device, DType::F32, Path::Forward);
            let split = problem.run_with(&split, device, DType::F32, Path::Forward);
            for (result, expected) in &plain {
                let ours = match result.as_str() {
                    "grad score.hidden" => "grad score.hidden.weight",
                    "grad score.output" => "grad score.value.weight",
                    other => other,
                };
                assert_close(format!("{name}: {result}"), &split[ours], expected, 3e-6);
            }
        }
    });
}

fn check_memory<S: ScoringFunction>(score: impl Fn(&Device) -> S, names: Names) {
    device::each_training(|device| {
        let lens = [[3, 6], [0, 7]].map(|lens| MaskSpec::lens(&lens));
        for mask in lens.into_iter().chain([MaskSpec::None]) {
            let problem = drawn(mask);
            let attention = attention_of(score(device), &problem, names);
            let run = |path| problem.run_with(&attention, device, DType::F32, path);
            let expected = run(Path::Forward);
            for path in [Path::Attend, Path::AttendWithWeights, Path::Steps] {
                assert_outcomes_close(format!("{path:?}"), &run(path), &expected, 5e-6);
            }
        }
    });
}

#[test]
fn attending_to_a_memory_is_forward() {
    let additive = AdditiveScoreConfig::new(SIZES.query_size, SIZES.key_size, SIZES.hiddens);
    let additive = additive.with_normalize(true);
    check_memory(|device| additive.init(device), &NORMALISED);
    check_memory(|device| concat().with_bias(true).init(device), &CONCAT);
}
