//! Monotonic attention around any scoring function: walks of plain loops over the formula of its score.

use attention_core::score::{AdditiveScoreConfig, BilinearScoreConfig, DotProductScoreConfig};
use attention_core::stateful::{MonotonicAttention, MonotonicAttentionConfig, StatefulAttention};
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::heads::On;
use attention_tests::{
    Array, MaskSpec, Outcome, assert_close, assert_outcomes_close, assert_outcomes_same,
    assert_same, device, panic_message, parameters, refuses,
};
use burn::module::Module;
use burn::tensor::{DType, Tensor};

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

/// A score by its formula, `energy(query, key, parameters)`.
type Energy = fn(&[f64], &[f64], &Outcome) -> f64;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `row W`, where W is `[size, out]`.
fn through(row: &[f64], weight: &Array) -> Vec<f64> {
    let column = |out: usize| (0..row.len()).map(move |at| row[at] * weight.at(&[at, out]));
    (0..weight.shape[1]).map(|out| column(out).sum()).collect()
}

fn of_dot_product(query: &[f64], key: &[f64], _: &Outcome) -> f64 {
    dot(query, key) / (query.len() as f64).sqrt()
}

fn of_bilinear(query: &[f64], key: &[f64], parameters: &Outcome) -> f64 {
    dot(&through(query, &parameters["score.query.weight"]), key)
}

fn of_additive(query: &[f64], key: &[f64], parameters: &Outcome) -> f64 {
    let query = through(query, &parameters["score.query.weight"]);
    let key = through(key, &parameters["score.key.weight"]);
    let hidden: Vec<f64> = query.iter().zip(key).map(|(q, k)| (q + k).tanh()).collect();
    dot(&hidden, &parameters["score.value.weight"].data)
}

fn of_nearness(query: &[f64], key: &[f64], _: &Outcome) -> f64 {
    let squares = query.iter().zip(key).map(|(q, k)| (q - k) * (q - k));
    1.0 - squares.sum::<f64>() / 16.0
}

/// A test of one score, with queries of 3 and keys of `key_size`.
trait Test {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On);
}

struct Case<S: ScoringFunction> {
    name: &'static str,
    attention: MonotonicAttention<S>,
    inputs: Outcome,
    energy: Energy,
}

fn case<S: ScoringFunction>(
    (name, score, key_size, energy): (&'static str, S, usize, Energy),
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
    let input = |name: &str, seed, rows, size| {
        let drawn = Array::draw(seed, &[BATCH, rows, size]);
        (name.to_string(), drawn)
    };
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
        energy,
    }
}

fn each_score(test: &impl Test, on: On) {
    let device = on.0;
    let score = DotProductScoreConfig::new().init();
    let product = ("dot product", score, 3, of_dot_product as Energy);
    test.run(&case(product, on), on);
    let score = BilinearScoreConfig::new(3, 5).init(device);
    test.run(&case(("bilinear", score, 5, of_bilinear), on), on);
    // The formula without normalisation: TensorFlow Addons' default.
    let score = AdditiveScoreConfig::new(3, 5, 4).init(device);
    test.run(&case(("additive", score, 5, of_additive), on), on);
    test.run(&case(("custom", Nearness {}, 3, of_nearness), on), on);
}

impl<S: ScoringFunction> Case<S> {
    /// The energy of `query` in step `step` and key `j`; `None` if the key is padding.
    fn energy(&self, inputs: &Outcome, parameters: &Outcome, at: [usize; 3]) -> Option<f64> {
        let [b, step, j] = at;
        let row = |array: &Array, row: usize| {
            let [rows, size] = [array.shape[1], array.shape[2]];
            let start = (b * rows + row) * size;
            array.data[start..start + size].to_vec()
        };
        (j < LENS[b]).then(|| {
            let (query, key) = (row(&inputs["queries"], step), row(&inputs["keys"], j));
            (self.energy)(&query, &key, parameters) + parameters["offset"].data[0]
        })
    }

    /// The expectation over all walks, key by key.
    fn soft(&self, inputs: &Outcome, parameters: &Outcome) -> Outcome {
        let mut weights = Array::full(&[BATCH, STEPS, KEYS], 0.0);
        for b in 0..BATCH {
            let mut previous = [0.0; KEYS];
            previous[0] = 1.0;
            for step in 0..STEPS {
                let mut reach = 0.0;
                for (j, previous) in previous.iter_mut().enumerate() {
                    let energy = self.energy(inputs, parameters, [b, step, j]);
                    let p = energy.map_or(0.0, |energy| 1.0 / (1.0 + (-energy).exp()));
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
        let parameters = parameters::values(&self.attention);
        let mut weights = Array::full(&[BATCH, STEPS, KEYS], 0.0);
        for b in 0..BATCH {
            let mut j = 0;
            for step in 0..STEPS {
                while j < KEYS {
                    let energy = self.energy(&self.inputs, &parameters, [b, step, j]);
                    let energy = energy.unwrap_or(f64::NEG_INFINITY);
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
            let (output, next) = if is_soft {
                attention.step_soft(query, &memory, state)
            } else {
                attention.step_hard(query, &memory, state)
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
            outcome["context"].dot(&inputs["grad_context"])
                + outcome["weights"].dot(&inputs["grad_weights"])
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
    const STEP: f64 = 1e-5;
    Array::from_fn(&arrays[name].shape, |at| {
        let at_distance = |distance: f64| {
            let mut changed = arrays.clone();
            *changed.get_mut(name).unwrap().at_mut(at) += distance;
            loss(&changed)
        };
        (at_distance(STEP) - at_distance(-STEP)) / (2.0 * STEP)
    })
}

fn with_context(weights: Array, inputs: &Outcome) -> Outcome {
    let values = &inputs["values"];
    let context = Array::from_fn(&[BATCH, STEPS, values.shape[2]], |at| {
        let keys = 0..KEYS;
        keys.map(|j| weights.at(&[at[0], at[1], j]) * values.at(&[at[0], j, at[2]]))
            .sum()
    });
    Outcome::from([("context".into(), context), ("weights".into(), weights)])
}

struct Soft;

impl Test for Soft {
    fn run<S: ScoringFunction>(&self, case: &Case<S>, on: On) {
        let mut expected = case.soft(&case.inputs, &parameters::values(&case.attention));
        expected.extend(case.differences());
        let tolerance = match on.1 {
            DType::F64 => 1e-8,
            _ => 2e-5,
        };
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
        let weights = &expected["weights"];
        let beyond = weights.masked_fill(0.0, |at| at[2] == 0);
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
    device::each_training(|device| {
        for dtype in [DType::F16, DType::BF16] {
            if device::computes(device, dtype) {
                let tolerance = 16.0 * device::epsilon(dtype);
                each_score(&Half(tolerance), (device, dtype));
            }
        }
    });
}

#[test]
fn what_does_not_fit_is_named() {
    device::each(|device| {
        let score = || DotProductScoreConfig::new().init();
        let attention = MonotonicAttentionConfig::new().init_with(score(), device);
        let rows = |rows, size| Tensor::<3>::ones([2, rows, size], device);
        let memory = attention.prepare(rows(7, 3), rows(7, 4), Mask::none());
        let start = || attention.initial_state(&memory);
        let message = panic_message(|| attention.step(rows(1, 5), &memory, start()));
        let parts = ["[2, 1, 7, 5]", "got [2, 1, 7, 3]"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        let plain = Attention::new(score(), 0.0);
        let other = plain.prepare(rows(7, 3), rows(7, 4), Mask::none());
        refuses("memory expected to be prepared for", || {
            attention.step(rows(1, 3), &other, start())
        });
    });
}
