//! Attention by the plain loops of [`attention_oracle`], in `f64`, on arrays with a heads axis.

use attention_core::position::RotaryLayout;
use attention_oracle::{Axes, Pairs, Rotation, Score};

use crate::{Array, MaskSpec};

/// `w . tanh(q W_q + k W_k)`; `w_q` and `w_k` are `[in, out]`, `w_v` is `[out, 1]`.
pub fn additive_scores([queries, keys, w_q, w_k, w_v]: [&Array; 5]) -> Array {
    let project = |x: &Array, w: &Array| {
        Array::from_fn(&[&x.shape[..3], &w.shape[1..]].concat(), |at| {
            let product = |s| x.at(&[at[0], at[1], at[2], s]) * w.at(&[s, at[3]]);
            (0..w.shape[0]).map(product).sum()
        })
    };
    let score = Score::Additive { weight: &w_v.data };
    scores(score, &project(queries, w_q), &project(keys, w_k))
}

/// `scale * q . k`
pub fn dot_product_scores(queries: &Array, keys: &Array, scale: f64) -> Array {
    scores(Score::Dot { scale }, queries, keys)
}

fn scores(score: Score<f64>, queries: &Array, keys: &Array) -> Array {
    let [batch, heads, num_queries, _] = shape_of(queries);
    let shape = [batch, heads, num_queries, keys.shape[2]];
    let pairs = pairs(shape, |_| true);
    Array::new(&shape, score.forward(&pairs, [&queries.data, &keys.data]))
}

/// Softmax over the keys attended to; 0 elsewhere. A score of `-inf` counts as masked.
pub fn masked_softmax(scores: &Array, mask: &MaskSpec) -> Array {
    let weights = attention_oracle::softmax(&unmasked(scores, mask), &scores.data);
    Array::new(&scores.shape, weights)
}

/// The gradient of the scores, where the weights receive `received`.
pub fn masked_softmax_gradient(scores: &Array, mask: &MaskSpec, received: &Array) -> Array {
    let pairs = unmasked(scores, mask);
    let gradient = attention_oracle::softmax_backward(&pairs, &scores.data, &received.data);
    Array::new(&scores.shape, gradient)
}

/// `sum_j weights[i, j] values[j]` over the keys with a weight.
pub fn weighted_sum(weights: &Array, values: &Array) -> Array {
    let shape @ [batch, heads, queries, keys] = shape_of(weights);
    let shape_of_context = [batch, heads, queries, values.shape[3]];
    if keys == 0 {
        return Array::full(&shape_of_context, 0.0);
    }
    let pairs = pairs(shape, |at| weights.at(&at) != 0.0);
    let context = attention_oracle::weighted_sum(&pairs, [&weights.data, &values.data]);
    Array::new(&shape_of_context, context)
}

/// The derivative of `loss` in each element of `point`, by central differences.
pub fn differences(point: &Array, step: f64, loss: impl Fn(&Array) -> f64) -> Array {
    let loss = |moved: &[f64]| loss(&Array::new(&point.shape, moved));
    let gradient = attention_oracle::differences(&point.data, step, loss);
    Array::new(&point.shape, gradient)
}

/// The pairs of `rows`, `[batch, heads, rows, size]`, turned by the angles `[batch or 1, rows, pairs]` times
/// `direction`.
pub fn rotated(rows: &Array, angles: &Array, layout: RotaryLayout, direction: f64) -> Array {
    let rotation = Rotation {
        shape: shape_of(rows),
        angles: &angles.data,
        pairs: angles.shape[2],
        is_interleaved: layout == RotaryLayout::Interleaved,
    };
    Array::new(&rows.shape, rotation.rotate(&rows.data, direction))
}

/// The angles of `positions`, `[batch or 1, rows]`, at `frequencies`.
pub fn angles(positions: &Array, frequencies: &[f64]) -> Array {
    let shape = [positions.shape[0], positions.shape[1], frequencies.len()];
    Array::from_fn(&shape, |at| positions.at(&at[..2]) * frequencies[at[2]])
}

/// `theta^(-2 n / rotated)`, of each pair of `rotated` features.
pub fn frequencies(theta: f64, rotated: usize) -> Vec<f64> {
    let frequency = |n| theta.powf(-2.0 * n as f64 / rotated as f64);
    (0..rotated / 2).map(frequency).collect()
}

fn shape_of(array: &Array) -> [usize; 4] {
    [0, 1, 2, 3].map(|axis| array.shape[axis])
}

fn unmasked(scores: &Array, mask: &MaskSpec) -> Pairs {
    let shape = shape_of(scores);
    let attends = |at| mask.attends(shape, at) && scores.at(&at) != f64::NEG_INFINITY;
    pairs(shape, attends)
}

fn pairs([batch, heads, queries, keys]: [usize; 4], attends: impl Fn([usize; 4]) -> bool) -> Pairs {
    let axes = Axes {
        batch,
        heads,
        key_heads: heads,
        queries,
        keys,
    };
    Pairs::new(axes, attends)
}
