//! The definition of attention, in loops over `f64`.

use attention_kernels::HeadIndex;

use super::case::{Case, Kind};
use super::exact::{Exact, Sum};
use super::sizes::Sizes;

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
        let scores = scores.into_iter().map(Option::unwrap_or_default).collect();
        return vec![
            ("scores", scores),
            ("gradient of queries", scored.queries),
            ("gradient of keys", scored.keys),
            ("gradient of weight", scored.shared),
        ];
    }
    let attended = attend(case, &scores);
    let scored = score_gradients(case, &attended.scores);
    vec![
        ("context", attended.context),
        ("log-sum-exp", attended.lse),
        ("gradient of queries", scored.queries),
        ("gradient of keys", scored.keys),
        ("gradient of values", attended.values),
        match case.kind {
            Kind::DotProduct => ("gradient of bias", scored.shared),
            _ => ("gradient of weight", scored.shared),
        },
    ]
}

/// The scores `[batch, heads, queries, keys]`; none where the mask or a bias of minus infinity masks the key.
fn scores(case: &Case) -> Vec<Option<Sum>> {
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
        if let Some(bias) = &case.bias {
            let bias = bias.row([b, h % bias.shape[1], 0])[j];
            sum.add(bias, bias.abs());
        }
        (case.mask.attends([b, h, i, j]) && sum.value != f64::NEG_INFINITY).then_some(sum)
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
    /// The gradient of the scores.
    scores: Vec<Sum>,
}

fn attend(case: &Case, scores: &[Option<Sum>]) -> Attended {
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
    };
    for row in 0..rows {
        let [b, h, i] = [row / queries / heads, row / queries % heads, row % queries];
        let attended_keys =
            || (0..keys).filter_map(|j| scores[row * keys + j].map(|score| (j, score)));
        let largest = attended_keys().fold(f64::NEG_INFINITY, |largest, (_, score)| {
            largest.max(score.value)
        });
        if largest == f64::NEG_INFINITY {
            continue;
        }
        let sum: f64 = attended_keys()
            .map(|(_, score)| (score.value - largest).exp())
            .sum();
        // A weight is as precise as the score and the log-sum-exp.
        let factor =
            8.0 + 2.0 * attended_keys().fold(0.0, |most: f64, (_, score)| most.max(score.size));
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
        for (j, weight, gradient) in weight_gradients {
            let size = weight * (gradient.size + mean.size) * factor;
            attended.scores[row * keys + j] =
                Sum::new(weight * (gradient.value - mean.value), size);
        }
    }
    attended
}

struct ScoreGradients {
    queries: Vec<Sum>,
    keys: Vec<Sum>,
    /// The gradient of the weight of the additive score, or of the bias.
    shared: Vec<Sum>,
}

/// Gradients of queries, keys, weight and bias from those of the scores.
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
    let bias_heads = case.bias.as_ref().map_or(0, |bias| bias.shape[1]);
    let shared = match case.kind {
        Kind::DotProduct => batch * bias_heads * keys,
        _ => size,
    };
    let mut gradients = ScoreGradients {
        queries: vec![Sum::default(); batch * heads * queries * size],
        keys: vec![Sum::default(); batch * key_heads * keys * size],
        shared: vec![Sum::default(); shared],
    };
    for (at, gradient) in gradients_of_scores.iter().enumerate() {
        let [b, h, i, j] = case.sizes.pair(at);
        if !case.mask.attends([b, h, i, j]) {
            continue;
        }
        let query = ((b * heads + h) * queries + i) * size;
        let key = ((b * key_heads + case.sizes.key_head(h)) * keys + j) * size;
        if case.kind == Kind::DotProduct && bias_heads > 0 {
            gradients.shared[(b * bias_heads + h % bias_heads) * keys + j]
                .add(gradient.value, gradient.size);
        }
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
                gradients.shared[unit].add(gradient.value * tanh, gradient.size);
            }
        }
    }
    gradients
}
