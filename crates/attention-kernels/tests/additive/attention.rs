//! Context and gradients of additive attention, by the path for few queries and the streaming one.

use attention_kernels::{
    AdditiveAttentionGradients, AdditiveAttentionInputs, AdditiveDeferredGradients,
    AdditiveScoreInputs, AttentionOutputs, Dropout, HeadIndex, Level, Mask, Real, Rows,
    accumulate_deferred,
};

use crate::problem::{Problem, error, from_f64, numbers, to_f64};

/// Additive attention to compute, on top of a problem of scores.
#[derive(Clone, Debug)]
struct Attention {
    problem: Problem,
    value_size: usize,
    values: Vec<f64>,
    context_gradient: Vec<f64>,
    dropout: Option<Dropout>,
}

/// Context, log-sum-exp and gradients, by name.
type Outcome = Vec<(&'static str, Vec<f64>)>;

/// The gradients of keys and values from what a step leaves of them; those of queries and weight are added to
/// `gradients`.
fn by_step<E: Real>(
    attention: &AdditiveAttentionInputs<E>,
    level: Level,
    outputs: &AttentionOutputs<E>,
    [queries, weight]: &mut [Vec<E>; 2],
) -> (Vec<E>, Vec<E>) {
    let [batch, heads, num_queries, _] = attention.score.queries.shape();
    let [_, _, num_keys, size] = attention.values.shape();
    let mut scores = vec![E::ZERO; batch * heads * num_queries * num_keys];
    let mut weights = scores.clone();
    let step = AdditiveDeferredGradients {
        queries,
        weight,
        scores: &mut scores,
        weights: &mut weights,
    };
    attention.backward_deferred(level, outputs, step);
    let mut values = vec![E::ZERO; batch * heads * num_keys * size];
    accumulate_deferred(
        level,
        E::ONE,
        &weights,
        outputs.context_gradient,
        &mut values,
    );
    // Hidden pairs are 0 there, so that no mask is needed.
    let score = AdditiveScoreInputs {
        mask: Mask::none(),
        ..attention.score
    };
    let mut keys = vec![E::ZERO; batch * heads * num_keys * attention.score.weight.len()];
    let shape = [batch, heads, num_queries, num_keys];
    score.backward_keys(level, Rows::contiguous(&scores, shape), &mut keys);
    (keys, values)
}

impl Attention {
    fn new(problem: Problem, value_size: usize) -> Self {
        let [batch, heads, queries, keys, _] = problem.sizes;
        Self {
            problem,
            value_size,
            values: numbers(5, batch * heads * keys * value_size),
            context_gradient: numbers(6, batch * heads * queries * value_size),
            dropout: None,
        }
    }

    /// By plain loops in arithmetic of type `E`.
    fn solve<E: Real>(&self) -> Outcome {
        let [_, heads, num_queries, num_keys, _] = self.problem.sizes;
        let size = self.value_size;
        let scores: Vec<E> = from_f64(&self.problem.solve::<E>().scores);
        let values: Vec<E> = from_f64(&self.values);
        let gradient: Vec<E> = from_f64(&self.context_gradient);
        let mut context = vec![E::ZERO; gradient.len()];
        let mut lse = vec![-E::INFINITY; scores.len() / num_keys.max(1)];
        let mut to_values = vec![E::ZERO; values.len()];
        let mut slopes = vec![E::ZERO; scores.len()];
        for row in 0..lse.len() {
            let (head, query) = (row / num_queries, row % num_queries);
            let place = [head / heads, head % heads, query];
            let sees = |key| self.problem.mask.sees([place[0], place[1], place[2], key]);
            let keys: Vec<usize> = (0..num_keys).filter(|key| sees(*key)).collect();
            if keys.is_empty() {
                continue;
            }
            let mut factors = vec![E::ONE; num_keys];
            if let Some(dropout) = self.dropout {
                let at = HeadIndex {
                    batch: place[0],
                    head: place[1],
                };
                dropout.factors(at, place[2], 0, &mut factors);
            }
            let score = |key: usize| scores[row * num_keys + key];
            let most = keys.iter().fold(-E::INFINITY, |most, key| {
                if score(*key) > most {
                    score(*key)
                } else {
                    most
                }
            });
            let sum: E = keys.iter().map(|key| (score(*key) - most).exp()).sum();
            lse[row] = most + sum.ln();
            let weight = |key: usize| (score(key) - most).exp() / sum;
            let value = |key: usize| &values[(head * num_keys + key) * size..][..size];
            let gradient = &gradient[row * size..(row + 1) * size];
            let slope = |key: usize| -> E {
                value(key)
                    .iter()
                    .zip(gradient)
                    .map(|(v, g)| *v * *g)
                    .sum::<E>()
                    * factors[key]
            };
            let total: E = keys.iter().map(|key| weight(*key) * slope(*key)).sum();
            for &key in &keys {
                slopes[row * num_keys + key] = weight(key) * (slope(key) - total);
                for x in 0..size {
                    context[row * size + x] += weight(key) * factors[key] * value(key)[x];
                    to_values[(head * num_keys + key) * size + x] +=
                        weight(key) * factors[key] * gradient[x];
                }
            }
        }
        let scored = Problem {
            grad: to_f64(&slopes),
            ..self.problem.clone()
        }
        .solve::<E>();
        vec![
            ("context", to_f64(&context)),
            ("log-sum-exp", to_f64(&lse)),
            ("gradient of queries", scored.queries),
            ("gradient of keys", scored.keys),
            ("gradient of values", to_f64(&to_values)),
            ("gradient of weight", scored.weight),
        ]
    }

    /// By the kernels, with keys packed before or not.
    fn run<E: Real>(&self, level: Level, packed: bool) -> Outcome {
        let [batch, heads, num_queries, num_keys, units] = self.problem.sizes;
        let (queries, keys) = (
            from_f64::<E>(&self.problem.queries),
            from_f64::<E>(&self.problem.keys),
        );
        let (weight, values) = (
            from_f64::<E>(&self.problem.weight),
            from_f64::<E>(&self.values),
        );
        let gradient = from_f64::<E>(&self.context_gradient);
        let mask = self.problem.mask.mask();
        let key_rows = Rows::contiguous(&keys, [batch, heads, num_keys, units]);
        let packed =
            packed.then(|| AdditiveScoreInputs::packed_keys(key_rows, mask, num_queries, level));
        let attention = AdditiveAttentionInputs {
            score: AdditiveScoreInputs {
                queries: Rows::contiguous(&queries, [batch, heads, num_queries, units]),
                keys: key_rows,
                weight: &weight,
                mask,
            },
            values: Rows::contiguous(&values, [batch, heads, num_keys, self.value_size]),
            packed_keys: packed.as_deref(),
            dropout: self.dropout,
        };
        let nan = E::from_f64(f64::NAN);
        let mut context = vec![nan; gradient.len()];
        let mut lse = vec![nan; batch * heads * num_queries];
        attention.forward(level, &mut context, &mut lse);
        let mut to_queries = vec![E::ZERO; queries.len()];
        let mut to_keys = vec![E::ZERO; keys.len()];
        let mut to_values = vec![E::ZERO; values.len()];
        let mut to_weight = vec![E::ZERO; units];
        let shape = [batch, heads, num_queries, self.value_size];
        let gradients = AdditiveAttentionGradients {
            queries: &mut to_queries,
            keys: &mut to_keys,
            values: &mut to_values,
            weight: &mut to_weight,
        };
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&context, shape),
            lse: &lse,
            context_gradient: Rows::contiguous(&gradient, shape),
        };
        attention.backward(level, &outputs, gradients);
        if attention.is_decode() {
            let mut gradients = [&to_queries, &to_weight].map(|to| vec![E::ZERO; to.len()]);
            let (of_keys, of_values) = by_step(&attention, level, &outputs, &mut gradients);
            let [of_queries, of_weight] = gradients;
            let pairs = [
                ("queries", of_queries, &to_queries),
                ("weight", of_weight, &to_weight),
                ("keys", of_keys, &to_keys),
                ("values", of_values, &to_values),
            ];
            for (name, step, whole) in pairs {
                let (found, magnitude) = error(&to_f64(&step), &to_f64(whole));
                let bound = if size_of::<E>() == 4 { 2e-6 } else { 4e-15 } * magnitude;
                assert!(found <= bound, "a step's {name}: {found:e} above {bound:e}");
            }
        }
        vec![
            ("context", to_f64(&context)),
            ("log-sum-exp", to_f64(&lse)),
            ("gradient of queries", to_f64(&to_queries)),
            ("gradient of keys", to_f64(&to_keys)),
            ("gradient of values", to_f64(&to_values)),
            ("gradient of weight", to_f64(&to_weight)),
        ]
    }

    /// The precision policy, for every level and both types.
    fn assert_precise(&self, what: &str) {
        let (exact, plain) = (self.solve::<f64>(), self.solve::<f32>());
        for level in Level::available() {
            for packed in [false, true] {
                let single = self.run::<f32>(level, packed);
                let double = self.run::<f64>(level, packed);
                for (index, (name, exact)) in exact.iter().enumerate() {
                    let finite = |numbers: &[f64]| -> Vec<f64> {
                        // Rows that see nothing have the same infinity.
                        numbers
                            .iter()
                            .map(|x| if *x == f64::NEG_INFINITY { -1e3 } else { *x })
                            .collect()
                    };
                    let exact = finite(exact);
                    let (plain, magnitude) = error(&finite(&plain[index].1), &exact);
                    let bound = (if index < 2 { 2.0 } else { 3.0 } * plain).max(1e-6 * magnitude);
                    let (found, _) = error(&finite(&single[index].1), &exact);
                    assert!(
                        found <= bound,
                        "{what}: {level:?}: {name}: error {found:e} above {bound:e}"
                    );
                    let (found, _) = error(&finite(&double[index].1), &exact);
                    let bound = 2e-14 * (magnitude + 0.1);
                    assert!(
                        found <= bound,
                        "{what}: {level:?}: f64 {name}: error {found:e} above {bound:e}"
                    );
                }
            }
        }
    }
}

fn masked(sizes: [usize; 5]) -> Vec<(&'static str, Problem)> {
    let new = || Problem::new(sizes);
    let [batch, heads, queries, keys, _] = sizes;
    vec![
        ("no mask", new()),
        (
            "lengths",
            new().with_intervals([batch, 1], |b, _| [0, [keys / 3, keys - 1][b]]),
        ),
        (
            "an example that sees nothing",
            new().with_intervals([batch, 1], |b, _| [0, [0, keys][b]]),
        ),
        (
            "causal",
            new().with_intervals([1, queries], |_, q| {
                [0, (q + keys + 1).saturating_sub(queries)]
            }),
        ),
        (
            "the first keys hidden",
            new().with_intervals([batch, 1], |b, _| [keys / 2 + b, keys]),
        ),
        (
            "flags",
            new().with_keep([batch, heads, queries, keys], |[b, h, q, k]| {
                (b + 2 * h + 3 * q + 5 * k) % 4 != 0
            }),
        ),
    ]
}

#[test]
fn few_queries_and_many_under_every_mask() {
    for queries in [1, 2, 4, 5, 23] {
        for (name, problem) in masked([2, 3, queries, 37, 11]) {
            Attention::new(problem, 13).assert_precise(&format!("{queries} queries, {name}"));
        }
    }
}

#[test]
fn sizes_beyond_every_tile() {
    Attention::new(Problem::new([1, 2, 101, 261, 67]), 35).assert_precise("large");
    Attention::new(Problem::new([1, 2, 1, 261, 67]), 35).assert_precise("many keys");
}

#[test]
fn units_out_of_range() {
    for queries in [1, 7] {
        let mut problem = Problem::new([2, 1, queries, 39, 13]);
        problem.queries[4] = 9.0;
        problem.keys[13 * 3 + 5] = -40.0;
        problem.keys[13 * 3 + 4] = -8.5;
        Attention::new(problem, 17).assert_precise("out of range");
    }
}

#[test]
fn dropout_is_the_same_forward_and_backward() {
    for queries in [1, 9] {
        let mut attention = Attention::new(Problem::new([2, 3, queries, 41, 5]), 7);
        attention.dropout = Some(Dropout::new(0.3, 17));
        attention.assert_precise("dropout");
    }
}

/// NaN in keys and values that no query sees, and in the gradient of rows that see nothing, changes no bit.
#[test]
fn padding_is_inert() {
    for queries in [1, 3, 9] {
        let clean =
            Problem::new([2, 1, queries, 21, 5]).with_intervals([2, 1], |b, _| [0, [0, 18][b]]);
        let clean = Attention::new(clean, 3);
        let mut poisoned = clean.clone();
        poisoned.problem.keys[..21 * 5].fill(f64::NAN);
        poisoned.values[..21 * 3].fill(f64::NAN);
        poisoned.context_gradient[..queries * 3].fill(f64::NAN);
        poisoned.problem.keys[(21 + 18) * 5..].fill(f64::INFINITY);
        poisoned.values[(21 + 18) * 3..].fill(f64::NAN);
        for level in Level::available() {
            for packed in [false, true] {
                let (clean, poisoned) = (
                    clean.run::<f32>(level, packed),
                    poisoned.run::<f32>(level, packed),
                );
                for ((name, clean), (_, poisoned)) in clean.iter().zip(&poisoned) {
                    assert_eq!(clean, poisoned, "{queries} queries, {level:?}: {name}");
                }
            }
        }
    }
}

#[test]
fn gradients_in_f64_are_slopes() {
    const STEP: f64 = 1e-5;
    for queries in [2, 5] {
        let problem =
            Problem::new([1, 2, queries, 6, 3]).with_intervals([1, queries], |_, q| [q % 2, 6 - q]);
        let mut attention = Attention::new(problem, 2);
        attention.dropout = Some(Dropout::new(0.25, 3));
        for level in Level::available() {
            let outcome = attention.run::<f64>(level, false);
            let loss = |attention: &Attention| -> f64 {
                let context = &attention.run::<f64>(level, false)[0].1;
                context
                    .iter()
                    .zip(&attention.context_gradient)
                    .map(|(c, g)| c * g)
                    .sum()
            };
            type Field = fn(&mut Attention) -> &mut Vec<f64>;
            let fields: [(usize, Field); 4] = [
                (2, |a| &mut a.problem.queries),
                (3, |a| &mut a.problem.keys),
                (4, |a| &mut a.values),
                (5, |a| &mut a.problem.weight),
            ];
            for (index, field) in fields {
                let (name, gradient) = &outcome[index];
                for (at, gradient) in gradient.iter().enumerate() {
                    let mut moved = attention.clone();
                    field(&mut moved)[at] += STEP;
                    let above = loss(&moved);
                    field(&mut moved)[at] -= 2.0 * STEP;
                    let slope = (above - loss(&moved)) / (2.0 * STEP);
                    assert!(
                        (slope - gradient).abs() < 1e-8,
                        "{level:?}: {name}[{at}]: {gradient}, not {slope}"
                    );
                }
            }
        }
    }
}
