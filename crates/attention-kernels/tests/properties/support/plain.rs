//! The definition of attention, by the oracle.

use attention_kernels::HeadIndex;
use attention_oracle::{Attention, Axes, Bias, Modifiers, Pairs, Real, Score};

use super::case::{Case, Kind};
use super::exact::{Exact, Rounded};
use super::tensor::Tensor;

pub(super) fn exact(elements: &[f64]) -> Vec<Rounded> {
    elements.iter().map(|x| Rounded::of(*x)).collect()
}

/// The results that the kernels must find.
pub(super) fn solve(case: &Case) -> Exact {
    let sizes = case.sizes;
    let axes = Axes {
        batch: sizes.batch,
        heads: sizes.heads,
        key_heads: sizes.key_heads,
        queries: sizes.queries,
        keys: sizes.keys,
    };
    let pairs = &Pairs::new(axes, |at| case.mask.attends(at));
    let in_order = |tensor: &Tensor| exact(&tensor.in_order());
    let [queries, keys, values] = [&case.queries, &case.keys, &case.values].map(in_order);
    let weight = exact(&case.weight);
    let score = match case.kind {
        Kind::DotProduct => Score::Dot {
            scale: Rounded::of(case.scale),
        },
        Kind::Pairwise => Score::Pairwise {
            weight: &weight,
            term: |query, key| {
                let half = Rounded::of(0.5);
                let unit = (query - half * key).tanh();
                let slope = Rounded::ONE - unit * unit;
                [unit, slope, -(half * slope)]
            },
        },
        Kind::AdditiveScore | Kind::AdditiveAttention => Score::Additive { weight: &weight },
    };
    if case.kind == Kind::AdditiveScore {
        let inputs = [&queries[..], &keys[..]];
        let gradient = in_order(&case.score_gradient);
        let [of_queries, of_keys, of_weight] = score.backward(pairs, inputs, &gradient);
        return vec![
            ("scores", score.forward(pairs, inputs)),
            ("gradient of queries", of_queries),
            ("gradient of keys", of_keys),
            ("gradient of weight", of_weight),
        ];
    }
    let biases = [&case.bias, &case.relative_bias];
    let elements = biases.map(|bias| bias.as_ref().map(in_order));
    let bias = |at: usize| {
        let (tensor, elements) = (biases[at].as_ref()?, elements[at].as_ref()?);
        Some(Bias {
            elements,
            shape: tensor.shape,
        })
    };
    let sinks = case.sinks.as_deref().map(exact);
    let factors = factors(case);
    let attention = Attention {
        pairs,
        score,
        queries: &queries,
        keys: &keys,
        values: &values,
        value_size: case.sizes.value_size,
        modifiers: Modifiers {
            soft_cap: case.soft_cap.map(Rounded::of),
            bias: bias(0),
            relative_bias: bias(1),
            sinks: sinks.as_deref(),
        },
        factors: factors.as_deref(),
    };
    let outputs = attention.forward();
    let gradients = attention.backward(&outputs, &in_order(&case.context_gradient));
    // A log-sum-exp is as precise as the weights that it makes.
    let sums = outputs.log_sum_exp.iter().enumerate().map(|(row, sum)| {
        let weights = &outputs.weights[row * axes.keys..(row + 1) * axes.keys];
        let errors = weights.iter().map(|weight| weight.size / weight.wide());
        let size = errors.fold(1.0, f64::max) + sum.abs();
        Rounded::new(*sum, if sum.is_finite() { size } else { 0.0 })
    });
    let sums = sums.collect();
    let mut exact = vec![
        ("context", outputs.context),
        ("log-sum-exp", sums),
        ("gradient of queries", gradients.queries),
        ("gradient of keys", gradients.keys),
        ("gradient of values", gradients.values),
        ("gradient of bias", gradients.bias),
        ("gradient of relative bias", gradients.relative_bias),
        ("gradient of sinks", gradients.sinks),
    ];
    if matches!(case.kind, Kind::AdditiveAttention | Kind::Pairwise) {
        exact.push(("gradient of weight", gradients.weight));
    }
    exact
}

/// The factors of dropout, `[batch, heads, queries, keys]`.
fn factors(case: &Case) -> Option<Vec<Rounded>> {
    let dropout = case.dropout?;
    let [batch, heads, queries, keys] = case.sizes.scores();
    let rows = (0..batch * heads * queries).flat_map(|row| {
        let head = row / queries;
        let at = HeadIndex {
            batch: head / heads,
            head: head % heads,
        };
        let mut factors = vec![0.0; keys];
        dropout.factors(at, row % queries, 0, &mut factors);
        exact(&factors)
    });
    Some(rows.collect())
}
