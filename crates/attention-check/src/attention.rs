//! Scores, softmax, weighted sums, and attention fused of them.

use attention_core::functional::{self, AttentionOptions};
use attention_core::masked_softmax;
use burn::tensor::Tensor;

use crate::case::{Case, Sizes};
use crate::check::{Check, Input, Outcome};
use crate::dropout;
use crate::plain::attention as plain;

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
    let values = dropout::with_identity(&case, case.values());
    let [.., value_size] = values.shape;
    let pairs = case.pairs();
    Check::new(
        [ADDITIVE_ATTENTION, case.name],
        [case.queries(), case.keys(), values, case.weight()],
        case.grad_output(value_size),
        move |inputs, given| {
            let factors = dropout::factors(&case, &pairs, given.observed);
            Outcome::new(
                plain::additive_attention(&pairs, inputs, &factors),
                plain::additive_attention_backward(&pairs, inputs, &factors, given.grad_output),
            )
        },
        move |[queries, keys, values, weight]| {
            let weight = weight.reshape([case.sizes.size]);
            let options = AttentionOptions {
                mask: case.mask(&queries.device()),
                dropout: Some(case.dropout),
                ..Default::default()
            };
            functional::additive_attention(queries, keys, values, weight, &options)
        },
    )
}

/// Dot-product attention of queries, keys, values and perhaps a bias, in one call.
fn dot_product_attention<const N: usize>(case: Case, inputs: [Input; N]) -> Check {
    dot_product_attention_by(case, inputs, move |inputs| {
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

/// Dot-product attention of queries, keys, values and perhaps a bias, as `on_device` computes it.
pub(crate) fn dot_product_attention_by<const N: usize>(
    case: Case,
    inputs: [Input; N],
    on_device: impl Fn([Tensor<4>; N]) -> Tensor<4> + 'static,
) -> Check {
    let [.., value_size] = inputs[2].shape;
    let pairs = case.pairs();
    Check::new(
        [DOT_PRODUCT_ATTENTION, case.name],
        inputs,
        case.grad_output(value_size),
        move |inputs, given| {
            let zeros = vec![0.0; pairs.bias_count()];
            let bias = inputs.get(3).copied().unwrap_or(&zeros);
            let inputs = [inputs[0], inputs[1], inputs[2], bias];
            let factors = dropout::factors(&case, &pairs, given.observed);
            let gradients = plain::dot_product_attention_backward(
                &pairs,
                inputs,
                SCALE,
                &factors,
                given.grad_output,
            );
            Outcome::new(
                plain::dot_product_attention(&pairs, inputs, SCALE, &factors),
                gradients.into_iter().take(N),
            )
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
        move |inputs, given| {
            Outcome::new(
                plain::additive_score(&pairs, inputs),
                plain::additive_score_backward(&pairs, inputs, given.grad_output),
            )
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
            Outcome::new(
                plain::dot_product_score(&pairs, inputs, SCALE),
                plain::dot_product_score_backward(&pairs, inputs, SCALE, given.grad_output),
            )
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
            Outcome::new(
                plain::softmax(&pairs, scores),
                [plain::softmax_backward(&pairs, scores, given.grad_output)],
            )
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
                plain::weighted_sum(&pairs, inputs),
                plain::weighted_sum_backward(&pairs, inputs, given.grad_output),
            )
        },
        move |[weights, values]| {
            let mask = case.mask(&weights.device());
            functional::weighted_sum(weights, values, &mask)
        },
    )
}
