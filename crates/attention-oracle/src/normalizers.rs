//! The weights of a row of unmasked scores, and the gradient of the scores from a gradient of the weights.

/// `exp(z_i) / sum_j exp(z_j)`
pub fn softmax(row: &[f64]) -> Vec<f64> {
    let greatest = greatest(row);
    let exps: Vec<f64> = row.iter().map(|score| (score - greatest).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|exp| exp / sum).collect()
}

/// The gradient of the scores: `weight (grad - sum_j weight_j grad_j)`.
pub fn softmax_backward(weights: &[f64], grad_weights: &[f64]) -> Vec<f64> {
    let pairs = || weights.iter().zip(grad_weights);
    let mean: f64 = pairs().map(|(weight, grad)| weight * grad).sum();
    let grad_score = |(weight, grad): (&f64, &f64)| weight * (grad - mean);
    pairs().map(grad_score).collect()
}

/// `1 / (1 + exp(-z_i))`
pub fn sigmoid(row: &[f64]) -> Vec<f64> {
    row.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect()
}

/// The gradient of the scores: `weight (1 - weight) grad`.
pub fn sigmoid_backward(weights: &[f64], grad_weights: &[f64]) -> Vec<f64> {
    let grad_score = |(weight, grad): (&f64, &f64)| weight * (1.0 - weight) * grad;
    weights.iter().zip(grad_weights).map(grad_score).collect()
}

/// `max(z_i - t, 0)`, with the threshold `t` for which the weights sum to 1: Martins and Astudillo 2016, "From Softmax
/// to Sparsemax", algorithm 1.
pub fn sparsemax(row: &[f64]) -> Vec<f64> {
    let greatest = greatest(row);
    let shifted: Vec<f64> = row.iter().map(|score| score - greatest).collect();
    let mut sorted = shifted.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (at, score) in sorted.iter().enumerate() {
        let count = (at + 1) as f64;
        sum += score;
        if 1.0 + count * score > sum {
            threshold = (sum - 1.0) / count;
        }
    }
    shifted.iter().map(|z| (z - threshold).max(0.0)).collect()
}

/// The gradient of the scores: within the support, the difference to the mean over the support.
pub fn sparsemax_backward(weights: &[f64], grad_weights: &[f64]) -> Vec<f64> {
    let pairs = || weights.iter().zip(grad_weights);
    let support = || pairs().filter(|(weight, _)| **weight > 0.0);
    let mean = support().map(|(_, grad)| grad).sum::<f64>() / support().count() as f64;
    let grad_score = |(weight, grad): (&f64, &f64)| f64::from(*weight > 0.0) * (grad - mean);
    pairs().map(grad_score).collect()
}

/// 1 for the first of the largest scores, 0 for the others; its gradient is 0.
pub fn hardmax(row: &[f64]) -> Vec<f64> {
    let greatest = greatest(row);
    let first = row.iter().position(|score| *score == greatest);
    let weight = |at| f64::from(Some(at) == first);
    (0..row.len()).map(weight).collect()
}

fn greatest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
