//! Softmax and weighted sums over the pairs of a query.

use crate::Pairs;

/// `weight[j] = exp(score[j]) / sum_j exp(score[j])` over the keys of a query, and 0 where masked.
pub fn softmax(pairs: &Pairs, scores: &[f64]) -> Vec<f64> {
    let mut greatest = vec![f64::NEG_INFINITY; pairs.query_rows()];
    for pair in &pairs.attended {
        greatest[pair.query] = greatest[pair.query].max(scores[pair.at]);
    }
    let mut sums = vec![0.0; pairs.query_rows()];
    for pair in &pairs.attended {
        sums[pair.query] += (scores[pair.at] - greatest[pair.query]).exp();
    }
    let mut weights = vec![0.0; pairs.count()];
    for pair in &pairs.attended {
        weights[pair.at] = (scores[pair.at] - greatest[pair.query]).exp() / sums[pair.query];
    }
    weights
}

/// The gradient of the scores: `weight[j] (grad_output[j] - sum_k weight[k] grad_output[k])`.
pub fn softmax_backward(pairs: &Pairs, scores: &[f64], grad_output: &[f64]) -> Vec<f64> {
    let weights = softmax(pairs, scores);
    let mut means = vec![0.0; pairs.query_rows()];
    for pair in &pairs.attended {
        means[pair.query] += weights[pair.at] * grad_output[pair.at];
    }
    let mut grad_scores = vec![0.0; pairs.count()];
    for pair in &pairs.attended {
        grad_scores[pair.at] = weights[pair.at] * (grad_output[pair.at] - means[pair.query]);
    }
    grad_scores
}

/// `context = sum_j weight[j] values[j]` over the keys of a query.
pub fn weighted_sum(pairs: &Pairs, [weights, values]: [&[f64]; 2]) -> Vec<f64> {
    let size = values.len() / pairs.key_rows().max(1);
    let mut context = vec![0.0; pairs.query_rows() * size];
    for pair in &pairs.attended {
        for v in 0..size {
            context[pair.query * size + v] += weights[pair.at] * values[pair.key * size + v];
        }
    }
    context
}

/// The gradients of weights and values.
pub fn weighted_sum_backward(
    pairs: &Pairs,
    [weights, values]: [&[f64]; 2],
    grad_output: &[f64],
) -> [Vec<f64>; 2] {
    let size = values.len() / pairs.key_rows().max(1);
    let [mut grad_weights, mut grad_values] = [weights, values].map(|input| vec![0.0; input.len()]);
    for pair in &pairs.attended {
        for v in 0..size {
            let grad_output = grad_output[pair.query * size + v];
            grad_weights[pair.at] += grad_output * values[pair.key * size + v];
            grad_values[pair.key * size + v] += grad_output * weights[pair.at];
        }
    }
    [grad_weights, grad_values]
}
