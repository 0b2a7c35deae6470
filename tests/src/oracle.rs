//! Attention in f64 and plain loops.

use crate::{Array, MaskSpec};

/// `w . tanh(q W_q + k W_k)`, all arrays with a heads axis; `w_q` and `w_k` are `[in, out]`, `w_v` is `[out, 1]`.
pub fn additive_scores(
    queries: &Array,
    keys: &Array,
    w_q: &Array,
    w_k: &Array,
    w_v: &Array,
) -> Array {
    let hiddens = w_v.shape[0];
    let projected = |x: &Array, b, h, row, unit, w: &Array| -> f64 {
        (0..w.shape[0])
            .map(|s| x.at(&[b, h, row, s]) * w.at(&[s, unit]))
            .sum()
    };
    pairs(queries, keys, |b, h, i, j| {
        (0..hiddens)
            .map(|unit| {
                let sum =
                    projected(queries, b, h, i, unit, w_q) + projected(keys, b, h, j, unit, w_k);
                w_v.at(&[unit, 0]) * sum.tanh()
            })
            .sum()
    })
}

/// `scale * q . k`, all arrays with a heads axis.
pub fn dot_product_scores(queries: &Array, keys: &Array, scale: f64) -> Array {
    let size = queries.shape[3];
    pairs(queries, keys, |b, h, i, j| {
        scale
            * (0..size)
                .map(|s| queries.at(&[b, h, i, s]) * keys.at(&[b, h, j, s]))
                .sum::<f64>()
    })
}

/// Softmax over the keys attended to; 0 elsewhere. A score of `-inf` counts as masked.
pub fn masked_softmax(scores: &Array, mask: &MaskSpec) -> Array {
    let shape = [
        scores.shape[0],
        scores.shape[1],
        scores.shape[2],
        scores.shape[3],
    ];
    let attends = |at: [usize; 4]| mask.attends(shape, at) && scores.at(&at) != f64::NEG_INFINITY;
    Array::from_fn(&shape, |at| {
        let [b, h, i, j] = [at[0], at[1], at[2], at[3]];
        let row = || {
            (0..shape[3])
                .filter(|&j| attends([b, h, i, j]))
                .map(|j| scores.at(&[b, h, i, j]))
        };
        if !attends([b, h, i, j]) {
            return 0.0;
        }
        let max = row().fold(f64::NEG_INFINITY, f64::max);
        (scores.at(at) - max).exp() / row().map(|score| (score - max).exp()).sum::<f64>()
    })
}

/// `sum_j weights[i, j] values[j]` over the keys with a weight.
pub fn weighted_sum(weights: &Array, values: &Array) -> Array {
    let [batch, heads, queries, keys] = [0, 1, 2, 3].map(|axis| weights.shape[axis]);
    Array::from_fn(&[batch, heads, queries, values.shape[3]], |at| {
        (0..keys)
            .map(|j| {
                (
                    weights.at(&[at[0], at[1], at[2], j]),
                    values.at(&[at[0], at[1], j, at[3]]),
                )
            })
            .filter(|&(weight, _)| weight != 0.0)
            .map(|(weight, value)| weight * value)
            .sum()
    })
}

/// The derivative of `loss` in each element of `point`, by central differences.
pub fn differences(point: &Array, step: f64, loss: impl Fn(&Array) -> f64) -> Array {
    let mut moved = point.clone();
    let data = (0..point.data.len())
        .map(|at| {
            moved.data[at] = point.data[at] + step;
            let above = loss(&moved);
            moved.data[at] = point.data[at] - step;
            let below = loss(&moved);
            moved.data[at] = point.data[at];
            (above - below) / (2.0 * step)
        })
        .collect();
    Array {
        shape: point.shape.clone(),
        data,
    }
}

fn pairs(
    queries: &Array,
    keys: &Array,
    score: impl Fn(usize, usize, usize, usize) -> f64,
) -> Array {
    let shape = [
        queries.shape[0],
        queries.shape[1],
        queries.shape[2],
        keys.shape[2],
    ];
    Array::from_fn(&shape, |at| score(at[0], at[1], at[2], at[3]))
}
