//! The formulas of the kernels as plain loops in f64, beside the definitions that they replace.
//!
//! Additive scores by exponentials of one side each; softmax and context in one pass over tiles of keys; the gradients
//! of both from what the forward pass keeps. Definitions are loops over the formula, gradients are held to central
//! differences, and the library's kernels to the same loops. Milakov & Gimelshein 2018, "Online normalizer calculation
//! for softmax"; Dao et al. 2022, "FlashAttention".
//!
//! ```text
//! cargo run -p attention-examples --example derivations
//! ```

use std::error::Error;

use attention_core::functional::{AttentionOptions, additive_attention};
use burn::prelude::*;

mod common;
use common::println;

const QUERIES: usize = 5;
const KEYS: usize = 11;
const HIDDENS: usize = 7;
const VALUE_SIZE: usize = 3;
/// Keys that are computed at once.
const TILE: usize = 4;

/// A matrix in f64, row by row.
#[derive(Clone)]
struct Matrix {
    size: usize,
    elements: Vec<f64>,
}

impl Matrix {
    fn zeros([rows, size]: [usize; 2]) -> Self {
        Self {
            size,
            elements: vec![0.0; rows * size],
        }
    }

    /// Elements that look random, within `-scale..scale`.
    fn waves([rows, size]: [usize; 2], scale: f64, phase: f64) -> Self {
        let element = |at| scale * (12.9898 * at as f64 + phase).sin();
        Self {
            size,
            elements: (0..rows * size).map(element).collect(),
        }
    }

    fn rows(&self) -> usize {
        self.elements.len() / self.size
    }

    fn row(&self, at: usize) -> &[f64] {
        &self.elements[at * self.size..][..self.size]
    }

    fn row_mut(&mut self, at: usize) -> &mut [f64] {
        &mut self.elements[at * self.size..][..self.size]
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            size: self.size,
            elements: self.elements.iter().map(|x| f(*x)).collect(),
        }
    }

    /// The largest difference between elements.
    fn difference(&self, other: &Self) -> f64 {
        let pairs = self.elements.iter().zip(&other.elements);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `to += factor from`.
fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let queries = Matrix::waves([QUERIES, HIDDENS], 1.5, 0.1);
    let keys = Matrix::waves([KEYS, HIDDENS], 1.5, 0.7);
    let values = Matrix::waves([KEYS, VALUE_SIZE], 2.0, 1.9);
    let weight = Matrix::waves([1, HIDDENS], 1.0, 2.3);
    let weight = weight.row(0);
    let lens = [11, 7, 3, 0, 5];

    let scores = scores_by_tanh(&queries, &keys, weight);
    report(
        "scores by exponentials",
        scores_by_exponentials(&queries, &keys, weight).difference(&scores),
    );

    let context = context_by_definition(&scores, &values, &lens);
    let streamed = context_by_streaming(&scores, &values, &lens);
    report(
        "context by streaming",
        streamed.context.difference(&context),
    );

    let output_gradient = Matrix::waves([QUERIES, VALUE_SIZE], 1.0, 3.1);
    let loss = |queries: &Matrix, keys: &Matrix, values: &Matrix, weight: &[f64]| {
        let scores = scores_by_tanh(queries, keys, weight);
        let context = context_by_definition(&scores, values, &lens);
        dot(&context.elements, &output_gradient.elements)
    };
    let of_attention = attention_gradients(&scores, &values, &lens, &streamed, &output_gradient);
    let of_score = score_gradients(&queries, &keys, weight, &of_attention.scores);
    let with_values = |values: &Matrix| loss(&queries, &keys, values, weight);
    report(
        "gradient of values",
        central_differences(&values, with_values).difference(&of_attention.values),
    );
    let with_queries = |queries: &Matrix| loss(queries, &keys, &values, weight);
    report(
        "gradient of queries",
        central_differences(&queries, with_queries).difference(&of_score.queries),
    );
    let with_keys = |keys: &Matrix| loss(&queries, keys, &values, weight);
    report(
        "gradient of keys",
        central_differences(&keys, with_keys).difference(&of_score.keys),
    );
    let with_weight = |weight: &Matrix| loss(&queries, &keys, &values, weight.row(0));
    let weight_matrix = Matrix {
        size: HIDDENS,
        elements: weight.to_vec(),
    };
    report(
        "gradient of w",
        central_differences(&weight_matrix, with_weight).difference(&of_score.weight),
    );

    let ours = library(&queries, &keys, &values, weight, &lens)?;
    let difference = ours.difference(&context);
    println!(
        "{:24} {:.0e} in f32",
        "the library's kernel",
        difference.max(1e-7)
    );
    assert!(difference < 1e-5);
    Ok(())
}

fn report(name: &str, difference: f64) {
    println!("{name:24} the same, to 8 digits");
    assert!(difference < 1e-8, "{name}: {difference:e}");
}

// ANCHOR: score_definition
/// `score[i,j] = sum_u w[u] tanh(q[i,u] + k[j,u])`: a tanh for each pair and hidden unit.
fn scores_by_tanh(queries: &Matrix, keys: &Matrix, weight: &[f64]) -> Matrix {
    let mut scores = Matrix::zeros([queries.rows(), keys.rows()]);
    for i in 0..queries.rows() {
        for j in 0..keys.rows() {
            let units = queries.row(i).iter().zip(keys.row(j));
            let tanh: Vec<f64> = units.map(|(q, k)| (q + k).tanh()).collect();
            scores.row_mut(i)[j] = dot(weight, &tanh);
        }
    }
    scores
}
// ANCHOR_END: score_definition

// ANCHOR: score_exponentials
/// The same from `a = e^(2q)` and `c = e^(2k)`: a multiply-add and a reciprocal for each pair and hidden unit.
fn scores_by_exponentials(queries: &Matrix, keys: &Matrix, weight: &[f64]) -> Matrix {
    let exponential = |x: f64| (2.0 * x).exp();
    let (a, c) = (queries.map(exponential), keys.map(exponential));
    let sum_of_weights: f64 = weight.iter().sum();
    let mut scores = Matrix::zeros([queries.rows(), keys.rows()]);
    for i in 0..queries.rows() {
        for j in 0..keys.rows() {
            let mut sum = 0.0;
            for ((a, c), w) in a.row(i).iter().zip(c.row(j)).zip(weight) {
                sum += w / (a * c + 1.0);
            }
            scores.row_mut(i)[j] = sum_of_weights - 2.0 * sum;
        }
    }
    scores
}
// ANCHOR_END: score_exponentials

// ANCHOR: context_definition
/// The softmax of the first `lens[i]` scores of each query, then the weighted sum of values.
fn context_by_definition(scores: &Matrix, values: &Matrix, lens: &[usize]) -> Matrix {
    let mut context = Matrix::zeros([scores.rows(), values.size]);
    for (i, len) in lens.iter().enumerate() {
        let scores = &scores.row(i)[..*len];
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        for (j, score) in scores.iter().enumerate() {
            let weight = (score - largest).exp() / sum;
            add(context.row_mut(i), weight, values.row(j));
        }
    }
    context
}
// ANCHOR_END: context_definition

/// The results that the forward pass leaves.
struct Streamed {
    context: Matrix,
    /// `ln sum_j e^score[i,j]` of each query; minus infinity where it attends to no key.
    lse: Vec<f64>,
}

// ANCHOR: context_streaming
/// The same in one pass over tiles of keys: no score outlives its tile.
fn context_by_streaming(scores: &Matrix, values: &Matrix, lens: &[usize]) -> Streamed {
    let mut context = Matrix::zeros([scores.rows(), values.size]);
    let mut lse = Vec::new();
    for (i, len) in lens.iter().enumerate() {
        // So far: the largest score m, the sum of e^(s - m), and in `context` the sum of e^(s - m) v.
        let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
        for first in (0..*len).step_by(TILE) {
            let tile = first..*len.min(&(first + TILE));
            let scores = &scores.row(i)[tile.clone()];
            let before = largest;
            largest = scores.iter().copied().fold(before, f64::max);
            // The sums are relative to the largest score before. (e^-inf is 0: at first there is nothing.)
            let factor = (before - largest).exp();
            sum *= factor;
            context.row_mut(i).iter_mut().for_each(|sum| *sum *= factor);
            for (j, score) in tile.zip(scores) {
                let weight = (score - largest).exp();
                sum += weight;
                add(context.row_mut(i), weight, values.row(j));
            }
        }
        // A query without a key keeps the context 0.
        if *len > 0 {
            context
                .row_mut(i)
                .iter_mut()
                .for_each(|of_value| *of_value /= sum);
        }
        lse.push(largest + sum.ln());
    }
    Streamed { context, lse }
}
// ANCHOR_END: context_streaming

/// The gradients of scores and values.
struct AttentionGradients {
    scores: Matrix,
    values: Matrix,
}

// ANCHOR: attention_gradients
/// From the gradient `dC` of the context: the weights are computed again, from scores and log-sum-exp.
fn attention_gradients(
    scores: &Matrix,
    values: &Matrix,
    lens: &[usize],
    Streamed { context, lse }: &Streamed,
    output_gradient: &Matrix,
) -> AttentionGradients {
    let mut of_scores = Matrix::zeros([scores.rows(), scores.size]);
    let mut of_values = Matrix::zeros([values.rows(), values.size]);
    for (i, len) in lens.iter().enumerate() {
        let dc = output_gradient.row(i);
        // D = sum_j p dp, without the sum over keys.
        let d = dot(dc, context.row(i));
        for j in 0..*len {
            let p = (scores.row(i)[j] - lse[i]).exp();
            let dp = dot(dc, values.row(j));
            of_scores.row_mut(i)[j] = p * (dp - d);
            add(of_values.row_mut(j), p, dc);
        }
    }
    AttentionGradients {
        scores: of_scores,
        values: of_values,
    }
}
// ANCHOR_END: attention_gradients

/// The gradients of an additive score's inputs.
struct ScoreGradients {
    queries: Matrix,
    keys: Matrix,
    weight: Matrix,
}

// ANCHOR: score_gradients
/// From the gradient `g` of the scores: tanh is computed again, from the same exponentials.
fn score_gradients(queries: &Matrix, keys: &Matrix, weight: &[f64], g: &Matrix) -> ScoreGradients {
    let exponential = |x: f64| (2.0 * x).exp();
    let (a, c) = (queries.map(exponential), keys.map(exponential));
    let mut gradients = ScoreGradients {
        queries: Matrix::zeros([queries.rows(), queries.size]),
        keys: Matrix::zeros([keys.rows(), keys.size]),
        weight: Matrix::zeros([1, weight.len()]),
    };
    for i in 0..queries.rows() {
        for j in 0..keys.rows() {
            let g = g.row(i)[j];
            for (u, w) in weight.iter().enumerate() {
                let t = 1.0 - 2.0 / (a.row(i)[u] * c.row(j)[u] + 1.0);
                let of_sum = g * (1.0 - t * t);
                gradients.queries.row_mut(i)[u] += w * of_sum;
                gradients.keys.row_mut(j)[u] += w * of_sum;
                gradients.weight.row_mut(0)[u] += g * t;
            }
        }
    }
    gradients
}
// ANCHOR_END: score_gradients

/// The gradient of `loss` at `at`, by its definition.
fn central_differences(at: &Matrix, loss: impl Fn(&Matrix) -> f64) -> Matrix {
    const STEP: f64 = 1e-5;
    let mut gradient = Matrix::zeros([at.rows(), at.size]);
    for index in 0..at.elements.len() {
        let moved = |step| {
            let mut moved = at.clone();
            moved.elements[index] += step;
            loss(&moved)
        };
        gradient.elements[index] = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
    }
    gradient
}

// ANCHOR: library
/// The library's context of the same inputs, which are projected already.
fn library(
    queries: &Matrix,
    keys: &Matrix,
    values: &Matrix,
    weight: &[f64],
    lens: &[usize],
) -> Result<Matrix, Box<dyn Error>> {
    let device = Device::default();
    let tensor = |matrix: &Matrix| {
        let elements: Vec<f32> = matrix.elements.iter().map(|x| *x as f32).collect();
        let data = TensorData::new(elements, [1, 1, matrix.rows(), matrix.size]);
        Tensor::<4>::from_data(data, &device)
    };
    let weight: Vec<f32> = weight.iter().map(|w| *w as f32).collect();
    let weight = Tensor::<1>::from_data(weight.as_slice(), &device);
    let lens: Vec<i64> = lens.iter().map(|len| *len as i64).collect();
    let lens = Tensor::<2, Int>::from_data(TensorData::new(lens, [1, QUERIES]), &device);
    let options = AttentionOptions::from(&attention_core::Mask::valid_lens_per_query(lens));
    let context = additive_attention(
        tensor(queries),
        tensor(keys),
        tensor(values),
        weight,
        &options,
    );
    let elements = context.try_into_vec_as::<f32>()?;
    Ok(Matrix {
        size: VALUE_SIZE,
        elements: elements.into_iter().map(f64::from).collect(),
    })
}
// ANCHOR_END: library
