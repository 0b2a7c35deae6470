//! Additive attention with bias and normalised weight, and concat attention: results and gradients.

use attention_core::{AdditiveScore, Attention, ConcatScore, ConcatScoreConfig, ScoringFunction};
use attention_tests::{
    Array, Concatenation, MaskSpec, Outcome, Path, Problem, SIZES, assert_close,
    assert_outcomes_close, device, masks, reference,
};
use burn::module::Param;
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
    let (context, weights) = path.call(&attention, [queries, keys, values], &mask);
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

/// The reference case `name`: PyTorch's g is a matrix of one element.
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
