//! Scores, softmax, weighted sums, and the attention that fuses them.

use attention_core::functional::{self, AttentionOptions};
use attention_core::masked_softmax;
use attention_oracle::{Attention, Bias, Modifiers, Score};
use burn::tensor::Tensor;

use crate::case::{Case, Sizes};
use crate::check::{Check, Input, Outcome};
use crate::dropout;

pub(crate) const ADDITIVE_ATTENTION: &str = "additive attention";
const DOT_PRODUCT_ATTENTION: &str = "dot-product attention";

/// The factor on dot products.
pub(crate) const SCALE: f64 = 0.25;

/// The checks of one call each.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let dot_product = |case: Case| {
        let values = dropout::with_identity(&case, case.values());
        dot_product_attention(case, [case.queries(), case.keys(), values])
    };
    let mut checks = Vec::new();
    for case in Case::all(sizes) {
        checks.extend([
            additive_attention(case),
            dot_product(case.of_dot_products()),
            additive_score(case),
            dot_product_score(case.of_dot_products()),
            softmax(case.of_dot_products()),
            weighted_sum(case),
        ]);
    }
    for case in Case::with_dropout(sizes) {
        checks.extend([additive_attention(case), dot_product(case)]);
    }
    for case in Case::with_bias(sizes) {
        let inputs = [case.queries(), case.keys(), case.values(), case.bias()];
        checks.push(dot_product_attention(case, inputs));
    }
    checks
}

fn additive_attention(case: Case) -> Check {
    weighted_attention(
        [ADDITIVE_ATTENTION, case.name],
        case,
        |weight| Score::Additive { weight },
        |[queries, keys, values], weight, options| {
            functional::additive_attention(queries, keys, values, weight, options)
        },
    )
}

/// Attention with a score that has a weight per unit, computed by `on_device`.
pub(crate) fn weighted_attention(
    names: [&'static str; 2],
    case: Case,
    score: fn(&[f64]) -> Score<f64>,
    on_device: fn([Tensor<4>; 3], Tensor<1>, AttentionOptions) -> Tensor<4>,
) -> Check {
    let values = dropout::with_identity(&case, case.values());
    let [.., value_size] = values.shape;
    let pairs = case.pairs();
    Check::new(
        names,
        [case.queries(), case.keys(), values, case.weight()],
        case.grad_output(value_size),
        move |[queries, keys, values, weight], given| {
            let attention = Attention {
                pairs: &pairs,
                score: score(weight),
                queries,
                keys,
                values,
                value_size,
                modifiers: Modifiers::NONE,
                factors: Some(&dropout::factors(&case, &pairs, given.observed)),
            };
            let outputs = attention.forward();
            let of = attention.backward(&outputs, given.grad_output);
            Outcome::new(outputs.context, [of.queries, of.keys, of.values, of.weight])
        },
        move |[queries, keys, values, weight]| {
            let weight = weight.reshape([case.sizes.size]);
            let options = AttentionOptions {
                mask: case.mask(&queries.device()),
                dropout: Some(case.dropout),
                ..Default::default()
            };
            on_device([queries, keys, values], weight, options)
        },
    )
}

/// Dot-product attention of queries, keys, values and an optional bias, in one call.
fn dot_product_attention<const N: usize>(case: Case, inputs: [Input; N]) -> Check {
    dot_product_attention_by(case, inputs, None, move |inputs| {
        let [queries, keys, values] = [0, 1, 2].map(|index| inputs[index].clone());
        let options = AttentionOptions {
            mask: case.mask(&queries.device()),
            scale: Some(SCALE),
            bias: inputs.get(3).cloned(),
            dropout: Some(case.dropout),
            ..Default::default()
        };
        functional::dot_product_attention(queries, keys, values, &options)
    })
}

/// Dot-product attention of queries, keys, values and an optional bias, computed by `on_device`; if `changed`, its
/// scores are modified by `tanh(score)` and a number per key, as a bias has.
pub(crate) fn dot_product_attention_by<const N: usize>(
    case: Case,
    inputs: [Input; N],
    changed: Option<Vec<f64>>,
    on_device: impl Fn([Tensor<4>; N]) -> Tensor<4> + 'static,
) -> Check {
    let [.., value_size] = inputs[2].shape;
    let pairs = case.pairs();
    let operation = match &changed {
        Some(_) => "score_mod",
        None => DOT_PRODUCT_ATTENTION,
    };
    Check::new(
        [operation, case.name],
        inputs,
        case.grad_output(value_size),
        move |inputs, given| {
            let bias = inputs.get(3).copied().or(changed.as_deref());
            let bias = bias.map(|elements| Bias {
                elements,
                shape: [case.sizes.batch, case.sizes.heads, 1, case.sizes.keys],
            });
            let attention = Attention {
                pairs: &pairs,
                score: Score::Dot { scale: SCALE },
                queries: inputs[0],
                keys: inputs[1],
                values: inputs[2],
                value_size,
                modifiers: Modifiers {
                    soft_cap: changed.as_ref().map(|_| 1.0),
                    bias,
                    ..Modifiers::NONE
                },
                factors: Some(&dropout::factors(&case, &pairs, given.observed)),
            };
            let outputs = attention.forward();
            let of = attention.backward(&outputs, given.grad_output);
            let gradients = [of.queries, of.keys, of.values, of.bias];
            Outcome::new(outputs.context, gradients.into_iter().take(N))
        },
        on_device,
    )
}

fn additive_score(case: Case) -> Check {
    let pairs = case.pairs();
    Check::new(
        ["additive score", case.name],
        [case.queries(), case.keys(), case.weight()],
        case.grad_output(case.sizes.keys),
        move |[queries, keys, weight], given| {
            let (score, inputs) = (Score::Additive { weight }, [queries, keys]);
            let gradients = score.backward(&pairs, inputs, given.grad_output);
            Outcome::new(score.forward(&pairs, inputs), gradients)
        },
        move |[queries, keys, weight]| {
            let mask = case.mask(&queries.device());
            functional::additive_score(queries, keys, weight.reshape([case.sizes.size]), &mask)
        },
    )
}

fn dot_product_score(case: Case) -> Check {
    let pairs = case.pairs();
    Check::new(
        ["dot-product score", case.name],
        [case.queries(), case.keys()],
        case.grad_output(case.sizes.keys),
        move |inputs, given| {
            let score = Score::Dot { scale: SCALE };
            let gradients = score.backward(&pairs, inputs, given.grad_output);
            Outcome::new(score.forward(&pairs, inputs), gradients.into_iter().take(2))
        },
        move |[queries, keys]| {
            let mask = case.mask(&queries.device());
            functional::dot_product_score(queries, keys, &mask, SCALE)
        },
    )
}

fn softmax(case: Case) -> Check {
    let pairs = case.pairs();
    Check::new(
        ["masked softmax", case.name],
        [case.scores()],
        case.grad_output(case.sizes.keys),
        move |[scores], given| {
            let gradient = attention_oracle::softmax_backward(&pairs, scores, given.grad_output);
            Outcome::new(attention_oracle::softmax(&pairs, scores), [gradient])
        },
        move |[scores]| {
            let mask = case.mask(&scores.device());
            masked_softmax(scores, &mask)
        },
    )
}

fn weighted_sum(case: Case) -> Check {
    let pairs = case.pairs();
    Check::new(
        ["weighted sum", case.name],
        [case.weights(), case.values()],
        case.grad_output(case.sizes.value_size),
        move |inputs, given| {
            Outcome::new(
                attention_oracle::weighted_sum(&pairs, inputs),
                attention_oracle::weighted_sum_backward(&pairs, inputs, given.grad_output),
            )
        },
        move |[weights, values]| {
            let mask = case.mask(&weights.device());
            functional::weighted_sum(weights, values, &mask)
        },
    )
}
