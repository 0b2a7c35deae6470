//! The definition of attention, in loops over `f64`.

use attention_kernels::HeadIndex;

use super::case::{Case, Kind};
use super::exact::{Exact, Sum};
use super::sizes::Sizes;
use super::tensor::Tensor;

/// The results that the kernels must find.
pub(super) fn solve(case: &Case) -> Exact {
    let scores = scores(case);
    if case.kind == Kind::AdditiveScore {
        let gradient = case
            .score_gradient
            .in_order()
            .into_iter()
            .map(|g| Sum::new(g, g.abs()))
            .collect::<Vec<_>>();
        let scored = score_gradients(case, &gradient);
        let sum = |score: Option<Score>| score.unwrap_or_default().sum;
        let scores = scores.into_iter().map(sum).collect();
        return vec![
            ("scores", scores),
            ("gradient of queries", scored.queries),
            ("gradient of keys", scored.keys),
            ("gradient of weight", scored.weight),
        ];
    }
    let attended = attend(case, &scores);
    let sizes = case.sizes;
    let bias = bias_gradient(case.bias.as_ref(), &attended.scores, |at| sizes.pair(at));
    let relative_bias = bias_gradient(case.relative_bias.as_ref(), &attended.scores, |at| {
        sizes.distance(sizes.pair(at))
    });
    let slopes = scores
        .iter()
        .map(|score| score.map_or(0.0, |score| score.slope));
    let through_cap = attended.scores.iter().zip(slopes);
    let of_scores: Vec<Sum> = through_cap
        .map(|(gradient, slope)| Sum::new(gradient.value * slope, gradient.size))
        .collect();
    let scored = score_gradients(case, &of_scores);
    let mut exact = vec![
        ("context", attended.context),
        ("log-sum-exp", attended.lse),
        ("gradient of queries", scored.queries),
        ("gradient of keys", scored.keys),
        ("gradient of values", attended.values),
    ];
    if case.kind == Kind::AdditiveAttention {
        exact.push(("gradient of weight", scored.weight));
    }
    exact.extend([
        ("gradient of bias", bias),
        ("gradient of relative bias", relative_bias),
        ("gradient of sinks", attended.sinks),
    ]);
    exact
}

/// A score on its way to the softmax.
#[derive(Clone, Copy, Default)]
struct Score {
    sum: Sum,
    /// The derivative of the soft-cap.
    slope: f64,
}

/// The scores `[batch, heads, queries, keys]`; none where the mask or a bias of minus infinity masks the key.
fn scores(case: &Case) -> Vec<Option<Score>> {
    let sizes = case.sizes;
    let count = sizes.scores().iter().product();
    let score = |at| {
        let [b, h, i, j] = sizes.pair(at);
        let mut sum = Sum::default();
        for (unit, (q, k)) in pair(case, [b, h, i, j]).enumerate() {
            match case.kind {
                Kind::DotProduct => sum.add(case.scale * q * k, (case.scale * q * k).abs()),
                _ => sum.add(case.weight[unit] * (q + k).tanh(), case.weight[unit].abs()),
            }
        }
        let mut slope = 1.0;
        if let Some(cap) = case.soft_cap {
            let tanh = (sum.value / cap).tanh();
            sum = Sum::new(cap * tanh, sum.size);
            slope = 1.0 - tanh * tanh;
        }
        let distance = sizes.distance([b, h, i, j]);
        for (bias, at) in [(&case.bias, [b, h, i, j]), (&case.relative_bias, distance)] {
            if let Some(bias) = bias {
                let bias = bias.element(at);
                sum.add(bias, bias.abs());
            }
        }
        let is_attended = case.mask.attends([b, h, i, j]) && sum.value != f64::NEG_INFINITY;
        is_attended.then_some(Score { sum, slope })
    };
    (0..count).map(score).collect()
}

/// The elements of a query and a key.
fn pair(case: &Case, [b, h, i, j]: [usize; 4]) -> impl Iterator<Item = (f64, f64)> {
    let query = case.queries.row([b, h, i]);
    let key = case.keys.row([b, case.sizes.key_head(h), j]);
    query.iter().copied().zip(key.iter().copied())
}

struct Attended {
    context: Vec<Sum>,
    lse: Vec<Sum>,
    /// The gradient of the values.
    values: Vec<Sum>,
    /// The gradient of the modified scores.
    scores: Vec<Sum>,
    sinks: Vec<Sum>,
}

fn attend(case: &Case, scores: &[Option<Score>]) -> Attended {
    let Sizes {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        value_size,
        ..
    } = case.sizes;
    let rows = batch * heads * queries;
    let mut attended = Attended {
        context: vec![Sum::default(); rows * value_size],
        lse: vec![Sum::new(f64::NEG_INFINITY, 0.0); rows],
        values: vec![Sum::default(); batch * key_heads * keys * value_size],
        scores: vec![Sum::default(); rows * keys],
        sinks: vec![Sum::default(); case.sinks.as_ref().map_or(0, Vec::len)],
    };
    for row in 0..rows {
        let [b, h, i] = [row / queries / heads, row / queries % heads, row % queries];
        let attended_keys =
            || (0..keys).filter_map(|j| scores[row * keys + j].map(|score| (j, score.sum)));
        let sink = case
            .sinks
            .as_ref()
            .map_or(f64::NEG_INFINITY, |sinks| sinks[h]);
        if attended_keys().next().is_none() {
            attended.lse[row] = Sum::new(sink, sink.abs());
            continue;
        }
        let largest = attended_keys().fold(sink, |largest, (_, score)| largest.max(score.value));
        let of_keys = attended_keys().map(|(_, score)| (score.value - largest).exp());
        let of_sink = (sink - largest).exp();
        let sum = of_keys.sum::<f64>() + of_sink;
        // A weight is as precise as the score and the log-sum-exp.
        let sizes = attended_keys().map(|(_, score)| score.size);
        let factor = 8.0 + 2.0 * sizes.fold(largest.abs(), f64::max);
        attended.lse[row] = Sum::new(largest + sum.ln(), factor);
        let mut kept = vec![1.0; keys];
        if let Some(dropout) = case.dropout {
            let at = HeadIndex { batch: b, head: h };
            dropout.factors(at, i, 0, &mut kept);
        }
        let key_head = case.sizes.key_head(h);
        let gradient = case.context_gradient.row([b, h, i]);
        let context = &mut attended.context[row * value_size..][..value_size];
        let mut weight_gradients = Vec::new();
        let mut mean = Sum::default();
        for (j, score) in attended_keys() {
            let weight = (score.value - largest).exp() / sum;
            let dropped = weight * kept[j];
            let first = ((b * key_heads + key_head) * keys + j) * value_size;
            let mut weight_gradient = Sum::default();
            for (x, value) in case.values.row([b, key_head, j]).iter().enumerate() {
                context[x].add(dropped * value, dropped * value.abs() * factor);
                attended.values[first + x]
                    .add(dropped * gradient[x], dropped * gradient[x].abs() * factor);
                weight_gradient.add(
                    kept[j] * gradient[x] * value,
                    (kept[j] * gradient[x] * value).abs(),
                );
            }
            mean.add(
                weight * weight_gradient.value,
                weight * weight_gradient.size,
            );
            weight_gradients.push((j, weight, weight_gradient));
        }
        if let Some(of_sinks) = attended.sinks.get_mut(h) {
            let weight = of_sink / sum;
            of_sinks.add(-weight * mean.value, weight * mean.size * factor);
        }
        for (j, weight, gradient) in weight_gradients {
            let size = weight * (gradient.size + mean.size) * factor;
            attended.scores[row * keys + j] =
                Sum::new(weight * (gradient.value - mean.value), size);
        }
    }
    attended
}

/// The gradient of a bias from the gradients of the modified scores: each adds to the element at its place.
fn bias_gradient(
    bias: Option<&Tensor>,
    of_scores: &[Sum],
    place: impl Fn(usize) -> [usize; 4],
) -> Vec<Sum> {
    let Some(bias) = bias else { return Vec::new() };
    let mut gradient = vec![Sum::default(); bias.shape.iter().product()];
    for (at, of_score) in of_scores.iter().enumerate() {
        gradient[bias.position(place(at))].add(of_score.value, of_score.size);
    }
    gradient
}

struct ScoreGradients {
    queries: Vec<Sum>,
    keys: Vec<Sum>,
    /// The gradient of the additive score's weight.
    weight: Vec<Sum>,
}

/// Gradients of queries, keys and weight from the scores' gradients.
fn score_gradients(case: &Case, gradients_of_scores: &[Sum]) -> ScoreGradients {
    let Sizes {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        size,
        ..
    } = case.sizes;
    let mut gradients = ScoreGradients {
        queries: vec![Sum::default(); batch * heads * queries * size],
        keys: vec![Sum::default(); batch * key_heads * keys * size],
        weight: vec![Sum::default(); size],
    };
    for (at, gradient) in gradients_of_scores.iter().enumerate() {
        let [b, h, i, j] = case.sizes.pair(at);
        if !case.mask.attends([b, h, i, j]) {
            continue;
        }
        let query = ((b * heads + h) * queries + i) * size;
        let key = ((b * key_heads + case.sizes.key_head(h)) * keys + j) * size;
        for (unit, (q, k)) in pair(case, [b, h, i, j]).enumerate() {
            let (to_query, to_key) = (
                &mut gradients.queries[query + unit],
                &mut gradients.keys[key + unit],
            );
            if case.kind == Kind::DotProduct {
                to_query.add(
                    gradient.value * case.scale * k,
                    gradient.size * (case.scale * k).abs(),
                );
                to_key.add(
                    gradient.value * case.scale * q,
                    gradient.size * (case.scale * q).abs(),
                );
            } else {
                let (weight, tanh) = (case.weight[unit], (q + k).tanh());
                let by_unit = gradient.value * weight * (1.0 - tanh * tanh);
                to_query.add(by_unit, gradient.size * weight.abs());
                to_key.add(by_unit, gradient.size * weight.abs());
                gradients.weight[unit].add(gradient.value * tanh, gradient.size);
            }
        }
    }
    gradients
}
