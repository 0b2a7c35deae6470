//! Additive attention with bias and normalised weight, and concat attention.
#![allow(clippy::unwrap_used)]

use attention_core::import::load_additive_attention;
use attention_core::{
    AdditiveAttention, AdditiveAttentionConfig, AdditiveScore, AdditiveScoreConfig, Attention,
    ConcatScore, ConcatScoreConfig, Mask, ScoringFunction,
};
use attention_tests::{
    Array, Concatenation, MaskSpec, Outcome, Path, Problem, SIZES, assert_close,
    assert_outcomes_close, assert_same, device, masks, panic_message, reference, reference_path,
};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{DType, Device, Gradients, Tensor};

const SHAPE: [usize; 4] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];

/// A score made of a problem's parameters, and their gradients by the same names.
trait Family: ScoringFunction {
    fn of(problem: &Problem, device: &Device, dtype: DType) -> Self;
    fn gradients(&self, gradients: &Gradients) -> Vec<(&'static str, Array)>;
}

fn parameter<const D: usize>(
    problem: &Problem,
    name: &str,
    device: &Device,
    dtype: DType,
) -> Option<Param<Tensor<D>>> {
    let array = problem.inputs.get(name)?;
    Some(Param::from_tensor(array.tensor(device, dtype)))
}

fn gradient<const D: usize>(parameter: &Param<Tensor<D>>, gradients: &Gradients) -> Array {
    Array::read(parameter.val().grad(gradients).unwrap())
}

impl Family for AdditiveScore {
    fn of(problem: &Problem, device: &Device, dtype: DType) -> Self {
        let linear = |name, bias| Linear {
            weight: parameter(problem, name, device, dtype).unwrap(),
            bias: parameter(problem, bias, device, dtype),
        };
        Self {
            query: linear("W_q", "b"),
            key: linear("W_k", "none"),
            value: linear("w_v", "none"),
            gain: parameter(problem, "g", device, dtype),
        }
    }

    fn gradients(&self, gradients: &Gradients) -> Vec<(&'static str, Array)> {
        let mut all = vec![
            ("W_q", gradient(&self.query.weight, gradients)),
            ("W_k", gradient(&self.key.weight, gradients)),
            ("w_v", gradient(&self.value.weight, gradients)),
        ];
        let bias = self.query.bias.as_ref();
        all.extend(bias.map(|bias| ("b", gradient(bias, gradients))));
        let gain = self.gain.as_ref();
        all.extend(gain.map(|gain| ("g", gradient(gain, gradients))));
        all
    }
}

impl Family for ConcatScore {
    fn of(problem: &Problem, device: &Device, dtype: DType) -> Self {
        let [query_size, key_size] =
            ["queries", "keys"].map(|name| *problem.inputs[name].shape.last().unwrap());
        let num_hiddens = problem.inputs["value"].shape[0];
        let mut score = ConcatScoreConfig::new(query_size, key_size, num_hiddens).init(device);
        score.hidden.weight = parameter(problem, "hidden", device, dtype).unwrap();
        score.hidden.bias = parameter(problem, "hidden.bias", device, dtype);
        score.value.weight = parameter(problem, "value", device, dtype).unwrap();
        score
    }

    fn gradients(&self, gradients: &Gradients) -> Vec<(&'static str, Array)> {
        let mut all = vec![
            ("hidden", gradient(&self.hidden.weight, gradients)),
            ("value", gradient(&self.value.weight, gradients)),
        ];
        let bias = self.hidden.bias.as_ref();
        all.extend(bias.map(|bias| ("hidden.bias", gradient(bias, gradients))));
        all
    }
}

impl Family for Concatenation {
    fn of(problem: &Problem, device: &Device, dtype: DType) -> Self {
        Self {
            hidden: parameter(problem, "hidden", device, dtype).unwrap(),
            output: parameter(problem, "value", device, dtype).unwrap(),
        }
    }

    fn gradients(&self, gradients: &Gradients) -> Vec<(&'static str, Array)> {
        vec![
            ("hidden", gradient(&self.hidden, gradients)),
            ("value", gradient(&self.output, gradients)),
        ]
    }
}

/// Context, weights where `path` has them, and all gradients.
fn run<S: Family, const D: usize>(
    problem: &Problem,
    device: &Device,
    dtype: DType,
    path: Path,
) -> Outcome {
    let attention = Attention::new(S::of(problem, device, dtype), 0.0);
    let inputs = ["queries", "keys", "values"].map(|name| {
        let input = problem.inputs[name].tensor::<D>(device, dtype);
        (name, input.require_grad())
    });
    let [queries, keys, values] = inputs.clone().map(|(_, tensor)| tensor);
    let mask = problem.mask.mask(device);
    let (context, weights) = match path {
        Path::Forward => (attention.forward(queries, keys, values, &mask), None),
        Path::ForwardWithWeights => {
            let output = attention.forward_with_weights(queries, keys, values, &mask);
            (output.context, Some(output.weights))
        }
        Path::Attend => {
            let memory = attention.prepare(keys, values, mask);
            (attention.attend(queries, &memory), None)
        }
        Path::AttendWithWeights => {
            let memory = attention.prepare(keys, values, mask);
            let output = attention.attend_with_weights(queries, &memory);
            (output.context, Some(output.weights))
        }
        Path::Steps => {
            let memory = attention.prepare(keys, values, mask);
            let steps = queries.split(1, D - 2).into_iter();
            let steps = steps.map(|query| attention.attend(query, &memory));
            (Tensor::cat(steps.collect(), D - 2), None)
        }
    };
    let received = problem.grad_context.as_ref().unwrap();
    let mut loss = (context.clone() * received.tensor(device, dtype)).sum();
    let mut outcome = Outcome::from([("context".to_string(), Array::read(context))]);
    if let Some(weights) = weights {
        outcome.insert("weights".to_string(), Array::read(weights.clone()));
        if let Some(received) = &problem.grad_weights {
            loss = loss + (weights * received.tensor(device, dtype)).sum();
        }
    }
    let gradients = loss.backward();
    for (name, input) in inputs {
        let gradient = Array::read(input.grad(&gradients).unwrap());
        outcome.insert(format!("grad {name}"), gradient);
    }
    for (name, gradient) in attention.score.gradients(&gradients) {
        outcome.insert(format!("grad {name}"), gradient);
    }
    outcome
}

/// The reference case `name`: PyTorch's g is a matrix of one number.
fn case(name: &str) -> (Problem, Outcome) {
    let cases = reference("additive_family");
    let case = cases.iter().find(|case| case.name == name).unwrap();
    let (mut problem, mut expected) = case.problem();
    let gains = [problem.inputs.get_mut("g"), expected.get_mut("grad g")];
    for gain in gains.into_iter().flatten() {
        *gain = gain.reshape(&[1]);
    }
    (problem, expected)
}

fn check_reference<S: Family>(name: &str, parameters: usize) {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            let (problem, mut expected) = case(name);
            // Context, weights, gradients of three inputs and of each parameter.
            assert_eq!(expected.len(), 5 + parameters);
            let tolerance = match dtype {
                DType::F64 => 1e-8,
                _ => 2e-5,
            };
            for path in [Path::ForwardWithWeights, Path::AttendWithWeights] {
                let outcome = run::<S, 3>(&problem, device, dtype, path);
                assert_eq!(outcome.len(), expected.len());
                let what = format!("{name}: {dtype:?}: {path:?}");
                assert_outcomes_close(&what, &outcome, &expected, tolerance);
            }
            if problem.grad_weights.is_none() {
                expected.remove("weights");
                for path in [Path::Forward, Path::Attend] {
                    let outcome = run::<S, 3>(&problem, device, dtype, path);
                    let what = format!("{name}: {dtype:?}: {path:?}");
                    assert_outcomes_close(&what, &outcome, &expected, tolerance);
                }
            }
        }
    });
}

#[test]
fn normalised_additive_attention_is_that_of_pytorch() {
    check_reference::<AdditiveScore>("normalized", 5);
}

#[test]
fn concat_attention_is_that_of_pytorch() {
    check_reference::<ConcatScore>("concat", 2);
    check_reference::<ConcatScore>("concat_bias", 3);
}

/// A problem with every parameter of the family.
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

#[test]
fn the_split_form_is_the_concatenation() {
    device::each_training(|device| {
        for (name, mask) in masks(SHAPE) {
            let mut problem = drawn(mask);
            problem.inputs.remove("hidden.bias");
            let plain = run::<Concatenation, 4>(&problem, device, DType::F32, Path::Forward);
            let split = run::<ConcatScore, 4>(&problem, device, DType::F32, Path::Forward);
            for (result, expected) in &plain {
                assert_close(&format!("{name}: {result}"), &split[result], expected, 3e-6);
            }
        }
    });
}

fn check_memory<S: Family>() {
    device::each_training(|device| {
        for mask in [
            MaskSpec::None,
            MaskSpec::lens(&[3, 6]),
            MaskSpec::lens(&[0, 7]),
        ] {
            let problem = drawn(mask);
            let expected = run::<S, 4>(&problem, device, DType::F32, Path::Forward);
            for path in [Path::Attend, Path::AttendWithWeights, Path::Steps] {
                let outcome = run::<S, 4>(&problem, device, DType::F32, path);
                assert_outcomes_close(&format!("{path:?}"), &outcome, &expected, 5e-6);
            }
        }
    });
}

#[test]
fn attending_to_a_memory_is_forward() {
    check_memory::<AdditiveScore>();
    check_memory::<ConcatScore>();
}

fn inputs(sizes: [usize; 2], device: &Device) -> [Tensor<3>; 2] {
    [
        Array::draw(1, &[2, 3, sizes[0]]).f32(device),
        Array::draw(2, &[2, 4, sizes[1]]).f32(device),
    ]
}

fn context<S: ScoringFunction>(attention: &Attention<S>, device: &Device) -> Array {
    let [queries, keys] = inputs([3, 5], device);
    let mask = Mask::none();
    Array::read(attention.forward(queries, keys.clone(), keys, &mask))
}

fn config() -> AdditiveAttentionConfig {
    AdditiveAttentionConfig::new(3, 5, 16)
}

#[test]
fn new_parameters_are_those_of_the_configuration() {
    device::each(|device| {
        let normalised = config().with_normalize(true).init(device).score;
        let gain = Array::read(normalised.gain.as_ref().unwrap().val());
        assert_eq!(gain, Array::full(&[1], 0.25));
        let bias = Array::read(normalised.query.bias.as_ref().unwrap().val());
        assert_eq!(bias, Array::full(&[16], 0.0));
        assert_eq!(normalised.num_params(), (3 + 1 + 5 + 1) * 16 + 1);

        let biased = config().with_bias(true).init(device).score;
        assert_eq!(biased.num_params(), (3 + 1 + 5 + 1) * 16);
        assert_eq!(config().init(device).score.num_params(), (3 + 5 + 1) * 16);
        let concat = ConcatScoreConfig::new(3, 5, 16).init(device);
        assert_eq!(concat.num_params(), (3 + 5 + 1) * 16);
        let concat = ConcatScoreConfig::new(3, 5, 16)
            .with_bias(true)
            .init(device);
        assert_eq!(concat.num_params(), (3 + 5 + 1 + 1) * 16);
    });
}

#[test]
fn only_the_direction_of_a_normalised_weight_counts() {
    device::each(|device| {
        let attention = config().with_normalize(true).init(device);
        let expected = context(&attention, device);
        let mut scaled = attention.clone();
        let value = &mut scaled.score.value;
        value.weight = Param::from_tensor(value.weight.val() * 8.0);
        assert_close("scaled", &context(&scaled, device), &expected, 1e-6);
        scaled.score.gain = Some(Param::from_tensor(Array::full(&[1], -2.0).f32(device)));
        assert_ne!(context(&scaled, device), expected, "the gain does nothing");
    });
}

/// What additive scores were before they had options.
#[derive(Module, Debug)]
struct Before {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[test]
fn records_load_where_their_parameters_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    device::each_both_ways(|device| {
        let configs = [
            config(),
            config().with_bias(true),
            config().with_normalize(true),
        ];
        for config in &configs {
            let saved = config.init(device);
            let path = folder.path().join("attention");
            saved.clone().save_file(&path).unwrap();
            let loaded = config.init(device).try_load_file(&path).unwrap();
            assert_same(
                "loaded",
                &context(&loaded, device),
                &context(&saved, device),
            );
        }

        let concat = ConcatScoreConfig::new(3, 5, 16).with_bias(true);
        let saved = Attention::new(concat.init(device), 0.0);
        let path = folder.path().join("concat");
        saved.clone().save_file(&path).unwrap();
        let other = Attention::new(concat.init(device), 0.0);
        let loaded = other.try_load_file(&path).unwrap();
        assert_same(
            "concat",
            &context(&loaded, device),
            &context(&saved, device),
        );

        let plain = config().init(device);
        let expected = context(&plain, device);
        let AdditiveScore {
            query, key, value, ..
        } = plain.score;
        let path = folder.path().join("before");
        Before { query, key, value }.save_file(&path).unwrap();
        let score = AdditiveScoreConfig::new(3, 5, 16).init(device);
        let loaded = Attention::new(score.try_load_file(&path).unwrap(), 0.0);
        assert_same("before", &context(&loaded, device), &expected);
        // What the record has and the score has not is left out, what it lacks is not made up.
        let normalised = config().with_normalize(true).init(device);
        let other = config().init(device).load_record(normalised.into_record());
        assert!(other.score.gain.is_none() && other.score.query.bias.is_none());
        for config in &configs[1..] {
            let error = config.init(device).score.try_load_file(&path).unwrap_err();
            assert!(error.to_string().contains("bias"), "{error}");
        }
    });
}

#[test]
fn a_pytorch_state_dict_with_a_bias_needs_a_place_for_it() {
    let device = &device::plain()[0];
    let load = |attention: AdditiveAttention| {
        let path = reference_path("additive_state_dict.safetensors");
        load_additive_attention(attention, path, "").map_err(|error| error.to_string())
    };
    let config = AdditiveAttentionConfig::new(11, 13, 17);
    load(config.init(device)).unwrap();
    let error = load(config.clone().with_bias(true).init(device)).unwrap_err();
    assert!(error.contains("W_q.bias"), "{error}");
    let error = load(config.with_normalize(true).init(device)).unwrap_err();
    assert!(error.contains("normalize"), "{error}");
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let device = &device::plain()[0];
    let expected = ["query_size", "key_size", "num_hiddens"];
    for (at, name) in expected.into_iter().enumerate() {
        let mut sizes = [3, 5, 7];
        sizes[at] = 0;
        let [q, k, h] = sizes;
        let message = panic_message(|| ConcatScoreConfig::new(q, k, h).init(device));
        assert_eq!(
            message,
            format!("ConcatScoreConfig: {name} expected at least 1, got 0")
        );
        let message = panic_message(|| {
            AdditiveScoreConfig::new(q, k, h)
                .with_normalize(true)
                .init(device)
        });
        assert_eq!(
            message,
            format!("AdditiveScoreConfig: {name} expected at least 1, got 0")
        );
    }
    let attention = Attention::new(ConcatScoreConfig::new(3, 5, 7).init(device), 0.0);
    let additive = config().init(device);
    for sizes in [[4, 5], [3, 4], [5, 3]] {
        let [queries, keys] = inputs(sizes, device);
        let mask = Mask::none();
        let messages = [
            panic_message(|| attention.forward(queries.clone(), keys.clone(), keys.clone(), &mask)),
            panic_message(|| additive.forward(queries.clone(), keys.clone(), keys.clone(), &mask)),
        ];
        // Keys are projected first.
        let wrong = if sizes[1] == 5 { [4, 3] } else { [sizes[1], 5] };
        for message in messages {
            for size in wrong {
                assert!(message.contains(&size.to_string()), "{message}");
            }
        }
    }
}
