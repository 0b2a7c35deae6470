//! Normalizers, in f64 and plain loops.

use attention_core::Normalizer;

use crate::{Array, MaskSpec};

/// All that take scores of any sign.
pub const ALL: [Normalizer; 4] = [
    Normalizer::Softmax,
    Normalizer::Sigmoid,
    Normalizer::Sparsemax,
    Normalizer::Hardmax,
];

/// The weights of one row of unmasked scores, as the papers have them.
fn row_weights(normalizer: Normalizer, row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match normalizer {
        Normalizer::Softmax => {
            let exps: Vec<f64> = row.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = exps.iter().sum();
            exps.iter().map(|exp| exp / sum).collect()
        }
        Normalizer::Sigmoid => row.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect(),
        Normalizer::Sparsemax => {
            let shifted: Vec<f64> = row.iter().map(|score| score - largest).collect();
            let mut sorted = shifted.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let mut sum = 0.0;
            let mut threshold = 0.0;
            for (at, score) in sorted.iter().enumerate() {
                let count = (at + 1) as f64;
                sum += score;
                if 1.0 + count * score > sum {
                    threshold = (sum - 1.0) / count;
                }
            }
            shifted.iter().map(|z| (z - threshold).max(0.0)).collect()
        }
        Normalizer::Hardmax => {
            let first = row.iter().position(|score| *score == largest);
            (0..row.len())
                .map(|at| f64::from(Some(at) == first))
                .collect()
        }
        Normalizer::SumNormalized => unreachable!("takes no negative scores"),
    }
}

/// The gradient of the scores of a row, where the weights receive `received`: the Jacobian is symmetric.
fn row_gradient(normalizer: Normalizer, weights: &[f64], received: &[f64]) -> Vec<f64> {
    let pairs = || weights.iter().zip(received);
    match normalizer {
        Normalizer::Softmax => {
            let mean: f64 = pairs().map(|(weight, r)| weight * r).sum();
            pairs().map(|(weight, r)| weight * (r - mean)).collect()
        }
        Normalizer::Sigmoid => pairs()
            .map(|(weight, r)| weight * (1.0 - weight) * r)
            .collect(),
        Normalizer::Sparsemax => {
            let support = || pairs().filter(|(weight, _)| **weight > 0.0);
            let mean = support().map(|(_, r)| r).sum::<f64>() / support().count() as f64;
            let inside = |weight: f64| f64::from(weight > 0.0);
            pairs()
                .map(|(weight, r)| inside(*weight) * (r - mean))
                .collect()
        }
        Normalizer::Hardmax => vec![0.0; weights.len()],
        Normalizer::SumNormalized => unreachable!("takes no negative scores"),
    }
}

/// Row by row over the unmasked pairs of `[batch, heads, queries, keys]`, 0 elsewhere.
fn by_rows(arrays: &[&Array], mask: &MaskSpec, row: impl Fn(&[Vec<f64>]) -> Vec<f64>) -> Array {
    let shape = [0, 1, 2, 3].map(|axis| arrays[0].shape[axis]);
    let mut result = Array::full(&shape, 0.0);
    let [batch, heads, queries, keys] = shape;
    for flat in 0..batch * heads * queries {
        let [b, h, i] = [
            flat / (heads * queries),
            flat / queries % heads,
            flat % queries,
        ];
        let attended: Vec<[usize; 4]> = (0..keys)
            .map(|j| [b, h, i, j])
            .filter(|&at| mask.attends(shape, at))
            .collect();
        if attended.is_empty() {
            continue;
        }
        let rows: Vec<Vec<f64>> = arrays
            .iter()
            .map(|array| attended.iter().map(|at| array.at(at)).collect())
            .collect();
        for (at, number) in attended.iter().zip(row(&rows)) {
            *result.at_mut(at) = number;
        }
    }
    result
}

/// The weights of `scores` under `mask`.
pub fn weights(normalizer: Normalizer, scores: &Array, mask: &MaskSpec) -> Array {
    by_rows(&[scores], mask, |rows| row_weights(normalizer, &rows[0]))
}

/// The gradient of the scores, where `weights` receive `received`; 0 from weights without a derivative.
pub fn gradient(
    normalizer: Normalizer,
    weights: &Array,
    received: &Array,
    mask: &MaskSpec,
) -> Array {
    by_rows(&[weights, received], mask, |rows| {
        row_gradient(normalizer, &rows[0], &rows[1])
    })
}
