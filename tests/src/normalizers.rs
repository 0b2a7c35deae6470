//! Normalizers under a mask, in f64 and plain loops.

use attention_core::Normalizer;
use attention_oracle::normalizers;

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
    match normalizer {
        Normalizer::Softmax => normalizers::softmax(row),
        Normalizer::Sigmoid => normalizers::sigmoid(row),
        Normalizer::Sparsemax => normalizers::sparsemax(row),
        Normalizer::Hardmax => normalizers::hardmax(row),
        Normalizer::NormalizedSigmoid => {
            let gates = normalizers::sigmoid(row);
            let sum: f64 = gates.iter().sum();
            gates.iter().map(|gate| gate / sum).collect()
        }
        Normalizer::SumNormalized => unreachable!("takes no negative scores"),
    }
}

/// The gradient of the scores of a row, where the weights receive `received`.
fn row_gradient(normalizer: Normalizer, weights: &[f64], received: &[f64]) -> Vec<f64> {
    match normalizer {
        Normalizer::Softmax => normalizers::softmax_backward(weights, received),
        Normalizer::Sigmoid => normalizers::sigmoid_backward(weights, received),
        Normalizer::Sparsemax => normalizers::sparsemax_backward(weights, received),
        Normalizer::Hardmax => vec![0.0; weights.len()],
        Normalizer::NormalizedSigmoid => unreachable!("needs the scores"),
        Normalizer::SumNormalized => unreachable!("takes no negative scores"),
    }
}

/// Row by row over the unmasked pairs of `[batch, heads, queries, keys]`, 0 elsewhere.
fn by_rows(arrays: &[&Array], mask: &MaskSpec, row: impl Fn(&[Vec<f64>]) -> Vec<f64>) -> Array {
    let shape = [0, 1, 2, 3].map(|axis| arrays[0].shape[axis]);
    let mut result = Array::full(&shape, 0.0);
    let [batch, heads, queries, keys] = shape;
    for flat in 0..batch * heads * queries {
        let (of_heads, i) = (flat / queries, flat % queries);
        let [b, h] = [of_heads / heads, of_heads % heads];
        let pairs = (0..keys).map(|j| [b, h, i, j]);
        let attended: Vec<_> = pairs.filter(|&at| mask.attends(shape, at)).collect();
        if attended.is_empty() {
            continue;
        }
        let row_of = |array: &&Array| attended.iter().map(|at| array.at(at)).collect();
        let rows: Vec<Vec<f64>> = arrays.iter().map(row_of).collect();
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
pub fn gradient(of: Normalizer, weights: &Array, received: &Array, mask: &MaskSpec) -> Array {
    by_rows(&[weights, received], mask, |rows| {
        row_gradient(of, &rows[0], &rows[1])
    })
}
