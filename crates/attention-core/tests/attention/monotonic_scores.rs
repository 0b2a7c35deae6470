//! Monotonic attention around any scoring function: walks of plain loops over the formula of its score.

use attention_core::score::{AdditiveScoreConfig, BilinearScoreConfig, DotProductScoreConfig};
use attention_core::stateful::{MonotonicAttention, MonotonicAttentionConfig, StatefulAttention};
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::heads::On;
use attention_tests::{
    Array, MaskSpec, Outcome, assert_close, assert_outcomes_close, assert_outcomes_same,
    assert_same, device, near_reference, oracle, parameters, refuses,
};
use burn::module::Module;
use burn::tensor::Tensor;

const BATCH: usize = 2;
const STEPS: usize = 3;
const KEYS: usize = 7;
const LENS: [usize; BATCH] = [5, 7];
const OFFSET: f64 = -0.5625;

/// `1 - |q - k|^2 / 16`, written by a user.
#[derive(Module, Debug)]
struct Nearness {}

impl ScoringFunction for Nearness {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let difference = queries.unsqueeze_dim::<5>(3) - keys.unsqueeze_dim::<5>(2);
        1.0 - difference.square().sum_dim(4).squeeze_dim::<4>(4) / 16.0
    }
}

/// A score of all pairs of queries and keys, `[batch, 1, queries, keys]`, by its formula and the parameters.
type Formula = fn([&Array; 2], &Outcome) -> Array;

fn of_dot_product([queries, keys]: [&Array; 2], _: &Outcome) -> Array {
    let scale = 1.0 / (queries.shape[3] as f64).sqrt();
    oracle::dot_product_scores(queries, keys, scale)
}

fn of_bilinear([queries, keys]: [&Array; 2], parameters: &Outcome) -> Array {
    let matrix = &parameters["score.query.weight"];
    let shape = [&queries.shape[..3], &matrix.shape[1..]].concat();
    let queries = Array::from_fn(&shape, |at| {
        let rows = 0..matrix.shape[0];
        let product = |row| queries.at(&[at[0], at[1], at[2], row]) * matrix.at(&[row, at[3]]);
        rows.map(product).sum()
    });
    oracle::dot_product_scores(&queries, keys, 1.0)
}

fn of_additive([queries, keys]: [&Array; 2], parameters: &Outcome) -> Array {
    let weight = |layer| &parameters[&format!("score.{layer}.weight")];
    let [w_q, w_k, w_v] = ["query", "key", "value"].map(weight);
    oracle::additive_scores([queries, keys, w_q, w_k, w_v])
}

fn of_nearness([queries, keys]: [&Array; 2], _: &Outcome) -> Array {
    Array::from_fn(&[BATCH, 1, STEPS, KEYS], |at| {
        let difference = |x| queries.at(&[at[0], 0, at[2], x]) - keys.at(&[at[0], 0, at[3], x]);
        let squares = (0..queries.shape[3]).map(|x| difference(x).powi(2));
        1.0 - squares.sum::<f64>() / 16.0
    })
}

/// A test of one score, with queries of 3 and keys of `key_size`.
trait Test {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On);
}

struct Case<S: ScoringFunction> {
    name: &'static str,
    attention: MonotonicAttention<S>,
    inputs: Outcome,
    formula: Formula,
}

fn case<S: ScoringFunction>(
    (name, score, key_size, formula): (&'static str, S, usize, Formula),
    (device, dtype): On,
) -> Case<S> {
    let config = MonotonicAttentionConfig::new().with_offset(OFFSET);
    let attention = config.with_noise(0.0).init_with(score, device);
    let attention = parameters::cast(attention, dtype);
    let mut seed = 10;
    let attention = parameters::changed(attention, |path, value| {
        seed += 1;
        match path {
            "offset" => value,
            _ => Array::draw(seed, &value.shape),
        }
    });
    let input = |name: &str, seed, len, size| (name.into(), Array::draw(seed, &[BATCH, len, size]));
    let inputs = Outcome::from([
        input("queries", 1, STEPS, 3),
        input("keys", 2, KEYS, key_size),
        input("values", 3, KEYS, 4),
        input("grad_context", 4, STEPS, 4),
        input("grad_weights", 5, STEPS, KEYS),
    ]);
    Case {
        name,
        attention,
        inputs,
        formula,
    }
}

fn each_score(test: &impl Test, on: On) {
    let device = on.0;
    let score = DotProductScoreConfig::new().init();
    let product = ("dot product", score, 3, of_dot_product as Formula);
    test.run(&case(product, on), on);
    let score = BilinearScoreConfig::new(3, 5).init(device);
    test.run(&case(("bilinear", score, 5, of_bilinear), on), on);
    // The formula without normalisation: TensorFlow Addons' default.
    let score = AdditiveScoreConfig::new(3, 5, 4).init(device);
    test.run(&case(("additive", score, 5, of_additive), on), on);
    test.run(&case(("custom", Nearness {}, 3, of_nearness), on), on);
}

impl<S: ScoringFunction> Case<S> {
    /// The energies of all steps and keys, `[batch, 1, steps, keys]`; minus infinity where a key is padding.
    fn energies(&self, inputs: &Outcome, parameters: &Outcome) -> Array {
        let rows = ["queries", "keys"].map(|name| inputs[name].with_heads());
        let scores = (self.formula)(rows.each_ref(), parameters);
        let energies = scores.map(|score| score + parameters["offset"].data[0]);
        energies.masked_fill(f64::NEG_INFINITY, |at| at[3] >= LENS[at[0]])
    }

    /// The expectation over all walks, key by key.
    fn soft(&self, inputs: &Outcome, parameters: &Outcome) -> Outcome {
        let energies = self.energies(inputs, parameters);
        let mut weights = Array::full(&[BATCH, STEPS, KEYS], 0.0);
        for b in 0..BATCH {
            let mut previous = [0.0; KEYS];
            previous[0] = 1.0;
            for step in 0..STEPS {
                let mut reach = 0.0;
                for (j, previous) in previous.iter_mut().enumerate() {
                    let p = 1.0 / (1.0 + (-energies.at(&[b, 0, step, j])).exp());
                    reach += *previous;
                    *previous = p * reach;
                    reach *= 1.0 - p;
                    *weights.at_mut(&[b, step, j]) = *previous;
                }
            }
        }
        with_context(weights, inputs)
    }

    /// A walk that stops where the energy is not negative.
    fn hard(&self) -> Outcome {
        let energies = self.energies(&self.inputs, &parameters::values(&self.attention));
        let mut weights = Array::full(&[BATCH, STEPS, KEYS], 0.0);
        for b in 0..BATCH {
            let mut j = 0;
            for step in 0..STEPS {
                while j < KEYS {
                    let energy = energies.at(&[b, 0, step, j]);
                    assert!(energy.abs() > 1e-3, "{}: rounding decides", self.name);
                    if energy >= 0.0 {
                        *weights.at_mut(&[b, step, j]) = 1.0;
                        break;
                    }
                    j += 1;
                }
            }
        }
        with_context(weights, &self.inputs)
    }

    /// Weights and contexts, in soft steps with all gradients.
    fn steps(&self, inputs: &Outcome, is_soft: bool, (device, dtype): On) -> Outcome {
        let names = ["queries", "keys", "values"];
        let leaves = names.map(|name| inputs[name].tensor::<3>(device, dtype));
        let leaves = leaves.map(|leaf| if is_soft { leaf.require_grad() } else { leaf });
        let [queries, keys, values] = leaves.clone();
        let attention = &self.attention;
        let lens = LENS.map(|len| len as i64);
        let memory = attention.prepare(keys, values, MaskSpec::lens(&lens).mask(device));
        let mut state = attention.initial_state(&memory);
        let (mut contexts, mut weights) = (Vec::new(), Vec::new());
        for step in 0..STEPS {
            let query = queries.clone().narrow(1, step, 1);
            let (output, next) = match is_soft {
                true => attention.step_soft(query, &memory, state),
                false => attention.step_hard(query, &memory, state),
            };
            contexts.push(output.context);
            weights.push(output.weights);
            state = next;
        }
        let (context, weights) = (Tensor::cat(contexts, 1), Tensor::cat(weights, 1));
        let mut outcome = Outcome::from([
            ("context".into(), Array::read(context.clone())),
            ("weights".into(), Array::read(weights.clone())),
        ]);
        if is_soft {
            let received = |name: &str| inputs[name].tensor::<3>(device, dtype);
            let loss = (context * received("grad_context")).sum();
            let loss = loss + (weights * received("grad_weights")).sum();
            let gradients = loss.backward();
            for (name, leaf) in names.into_iter().zip(leaves) {
                let gradient = Array::read(leaf.grad(&gradients).unwrap());
                outcome.insert(format!("grad {name}"), gradient);
            }
            for (name, gradient) in parameters::gradients(attention, Some(&gradients)) {
                outcome.insert(format!("grad {name}"), gradient);
            }
        }
        outcome
    }

    /// The gradients of [`soft`](Self::soft) by differences.
    fn differences(&self) -> Outcome {
        let parameters = parameters::values(&self.attention);
        let loss = |inputs: &Outcome, parameters: &Outcome| {
            let outcome = self.soft(inputs, parameters);
            let of = |name: &str| outcome[name].dot(&inputs[&format!("grad_{name}")]);
            of("context") + of("weights")
        };
        let mut found = Outcome::new();
        for name in ["queries", "keys", "values"] {
            let gradient = derivative(&self.inputs, name, |inputs| loss(inputs, &parameters));
            found.insert(format!("grad {name}"), gradient);
        }
        for name in parameters.keys() {
            let gradient = derivative(&parameters, name, |changed| loss(&self.inputs, changed));
            found.insert(format!("grad {name}"), gradient);
        }
        found
    }
}

/// The gradient of `loss` with respect to one of `arrays`, by central differences.
fn derivative(arrays: &Outcome, name: &str, loss: impl Fn(&Outcome) -> f64) -> Array {
    oracle::differences(&arrays[name], 1e-5, |moved| {
        let mut changed = arrays.clone();
        changed.insert(name.into(), moved.clone());
        loss(&changed)
    })
}

fn with_context(weights: Array, inputs: &Outcome) -> Outcome {
    let context = oracle::weighted_sum(&weights.with_heads(), &inputs["values"].with_heads());
    let context = context.reshape(&[BATCH, STEPS, inputs["values"].shape[2]]);
    Outcome::from([("context".into(), context), ("weights".into(), weights)])
}

struct Soft;

impl Test for Soft {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On) {
        let mut expected = case.soft(&case.inputs, &parameters::values(&case.attention));
        expected.extend(case.differences());
        let tolerance = near_reference(on.1, 2e-5);
        let actual = case.steps(&case.inputs, true, on);
        assert_eq!(actual.len(), expected.len(), "{}", case.name);
        assert_outcomes_close(case.name, &actual, &expected, tolerance);
        for (name, gradient) in &expected {
            assert!(gradient.magnitude() > 1e-3, "{}: {name}", case.name);
        }
    }
}

#[test]
fn soft_steps_and_their_gradients_are_those_of_plain_loops() {
    device::each_training(device::in_each_type(|on| each_score(&Soft, on)));
}

struct Hard;

impl Test for Hard {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On) {
        let expected = case.hard();
        // Some walk stops, and some goes beyond the first key.
        let beyond = expected["weights"].masked_fill(0.0, |at| at[2] == 0);
        assert!(beyond.magnitude() == 1.0, "{}", case.name);
        let actual = case.steps(&case.inputs, false, on);
        assert_same(case.name, &actual["weights"], &expected["weights"]);
        let (actual, expected) = (&actual["context"], &expected["context"]);
        assert_close(case.name, actual, expected, 1e-6);
    }
}

#[test]
fn hard_steps_are_walks() {
    device::each_both_ways(device::in_each_type(|on| each_score(&Hard, on)));
}

struct Padding;

impl Test for Padding {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On) {
        let mut poisoned = case.inputs.clone();
        for name in ["keys", "values"] {
            let rows = &case.inputs[name];
            let poison = rows.masked_fill(f64::NAN, |at| at[1] >= LENS[at[0]]);
            poisoned.insert(name.into(), poison);
        }
        let expected = case.steps(&case.inputs, true, on);
        let actual = case.steps(&poisoned, true, on);
        assert_outcomes_same(case.name, &actual, &expected);
    }
}

#[test]
fn padding_is_ignored_whatever_the_score() {
    device::each_training(device::in_each_type(|on| each_score(&Padding, on)));
}

/// In half precision, of inputs that it represents.
struct Half(f64);

impl Test for Half {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On) {
        let expected = case.soft(&case.inputs, &parameters::values(&case.attention));
        let actual = case.steps(&case.inputs, true, on);
        for name in ["context", "weights"] {
            let what = format!("{}, {:?}: {name}", case.name, on.1);
            assert_close(&what, &actual[name], &expected[name], self.0);
        }
    }
}

#[test]
fn half_precision() {
    device::each_training(device::in_half_types(|(device, dtype)| {
        let tolerance = 16.0 * device::epsilon(dtype);
        each_score(&Half(tolerance), (device, dtype));
    }));
}

#[test]
fn what_does_not_fit_is_named() {
    device::each(|device| {
        let score = || DotProductScoreConfig::new().init();
        let attention = MonotonicAttentionConfig::new().init_with(score(), device);
        let rows = |rows, size| Tensor::<3>::ones([2, rows, size], device);
        let memory = attention.prepare(rows(7, 3), rows(7, 4), Mask::none());
        let start = || attention.initial_state(&memory);
        refuses(["[2, 1, 7, 5]", "got [2, 1, 7, 3]"], || {
            attention.step(rows(1, 5), &memory, start())
        });
        let plain = Attention::new(score(), 0.0);
        let other = plain.prepare(rows(7, 3), rows(7, 4), Mask::none());
        refuses("memory expected to be prepared for", || {
            attention.step(rows(1, 3), &other, start())
        });
    });
}
