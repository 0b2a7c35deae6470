//! Softmax over the keys that each query sees.

use rayon::prelude::*;

use crate::simd::{Job, Level, Real, Simd};
use crate::{Mask, Rows};

/// Numbers in a task: some tens of microseconds, far above what handing it out costs.
const TASK: usize = 1 << 15;

/// Masked softmax over the last axis: `weights = exp(scores - max) / sum` over the visible keys, 0 elsewhere.
///
/// A row without a visible key is 0; so is a key whose score is minus infinity.
///
/// # Shapes
/// - scores, weights `[batch, heads, queries, keys]`, weights contiguous
///
/// # Panics
/// If weights or mask do not fit the scores.
pub fn masked_softmax<E: Real>(level: Level, mask: &Mask, scores: Rows<E>, weights: &mut [E]) {
    check_len("weights", scores.shape(), weights.len());
    mask.check(scores.shape());
    let Some(task_rows) = task_rows(scores.shape()) else {
        return;
    };
    let tasks = weights.par_chunks_mut(task_rows * scores.shape()[3]);
    tasks.enumerate().for_each(|(task, weights)| {
        let first = task * task_rows;
        E::dispatch(
            level,
            Forward {
                mask,
                first,
                scores,
                weights,
            },
        );
    });
}

/// The gradient of [`masked_softmax`]: `weights (grad - sum weights grad)`, and 0 for hidden keys whatever `grad`
/// holds there.
///
/// # Shapes
/// - weights, grad, grad_scores `[batch, heads, queries, keys]`, grad_scores contiguous
///
/// # Panics
/// If the shapes differ.
pub fn masked_softmax_backward<E: Real>(
    level: Level,
    weights: Rows<E>,
    grad: Rows<E>,
    grad_scores: &mut [E],
) {
    let shape = weights.shape();
    assert!(
        grad.shape() == shape,
        "masked_softmax: grad expected {shape:?}, got {:?}",
        grad.shape()
    );
    check_len("grad_scores", shape, grad_scores.len());
    let Some(task_rows) = task_rows(shape) else {
        return;
    };
    let tasks = grad_scores.par_chunks_mut(task_rows * shape[3]);
    tasks.enumerate().for_each(|(task, to)| {
        let first = task * task_rows;
        E::dispatch(
            level,
            Backward {
                first,
                weights,
                grad,
                to,
            },
        );
    });
}

fn check_len(name: &str, shape: [usize; 4], found: usize) {
    let expected: usize = shape.iter().product();
    assert!(
        found == expected,
        "masked_softmax: {name} of {shape:?} expected {expected} numbers, got {found}"
    );
}

/// Rows in a task, or `None` if there is nothing to do.
fn task_rows(shape: [usize; 4]) -> Option<usize> {
    match shape.contains(&0) {
        true => None,
        false => Some((TASK / shape[3]).max(1)),
    }
}

/// Batch, head and query of a row.
fn place([_, heads, num_queries, _]: [usize; 4], row: usize) -> [usize; 3] {
    let head = row / num_queries;
    [head / heads, head % heads, row % num_queries]
}

struct Forward<'a, E> {
    mask: &'a Mask<'a>,
    /// The first row.
    first: usize,
    scores: Rows<'a, E>,
    weights: &'a mut [E],
}

impl<E: Real> Job<E> for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let shape = self.scores.shape();
        let [.., num_keys] = shape;
        let mut wide = Vec::new();
        let rows = self.weights.chunks_exact_mut(num_keys);
        for (row, weights) in (self.first..).zip(rows) {
            let [batch, head, query] = place(shape, row);
            let scores = self.scores.row(batch, head, query).read(&mut wide);
            let visible = self.mask.visible(batch, head, query, num_keys);
            let range = visible.range.clone();
            weights[..range.start].fill(E::ZERO);
            weights[range.end..].fill(E::ZERO);
            weights[range.clone()].copy_from_slice(&scores[range.clone()]);
            visible.hide(&range, &mut weights[range.clone()], -E::INFINITY);
            let lse = softmax(simd, &mut weights[range.clone()]);
            if lse.to_f64().is_nan() {
                // A visible NaN reaches all that is visible, what underflows beside it too.
                for key in range.filter(|key| visible.sees(*key)) {
                    if scores[key] != -E::INFINITY {
                        weights[key] = lse;
                    }
                }
            }
        }
    }
}

/// Softmax in place; minus infinity hides. Returns the logarithm of the sum of `e^score`, minus infinity if there is
/// no visible score.
#[inline(always)]
pub(crate) fn softmax<E: Real, S: Simd<E>>(simd: S, row: &mut [E]) -> E {
    let negative_infinity = simd.splat(-E::INFINITY);
    let mut largest = negative_infinity;
    let mut chunks = row.chunks_exact(S::LANES);
    for chunk in chunks.by_ref() {
        largest = simd.max(simd.load(chunk), largest);
    }
    let mut largest = simd.largest(largest);
    for x in chunks.remainder() {
        if *x > largest {
            largest = *x;
        }
    }
    // Nothing is visible, or a visible score is NaN beside hidden ones: then the maximum must not be subtracted.
    if largest == -E::INFINITY {
        for x in row {
            *x = if *x == -E::INFINITY { E::ZERO } else { *x };
        }
        return largest;
    }
    let shift = simd.splat(largest);
    let mut sum = simd.zero();
    let mut chunks = row.chunks_exact_mut(S::LANES);
    for chunk in chunks.by_ref() {
        let e = simd.exp(simd.sub(simd.load(chunk), shift));
        sum = simd.add(sum, e);
        simd.store(e, chunk);
    }
    let rest = chunks.into_remainder();
    let mut sum = simd.sum(sum);
    if !rest.is_empty() {
        let e = simd.exp(simd.sub(simd.load_partial(rest), shift));
        simd.store_partial(e, rest);
        sum += rest.iter().copied().sum();
    }
    let factor = E::ONE / sum;
    for x in row {
        // A hidden weight stays 0 beside a NaN.
        *x = if *x == E::ZERO { E::ZERO } else { *x * factor };
    }
    largest + sum.ln()
}

struct Backward<'a, E> {
    /// The first row.
    first: usize,
    weights: Rows<'a, E>,
    grad: Rows<'a, E>,
    to: &'a mut [E],
}

impl<E: Real> Job<E> for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let shape = self.weights.shape();
        let (mut wide_weights, mut wide_grad) = (Vec::new(), Vec::new());
        for (row, to) in (self.first..).zip(self.to.chunks_exact_mut(shape[3])) {
            let [batch, head, query] = place(shape, row);
            let weights = self.weights.row(batch, head, query).read(&mut wide_weights);
            let grad = self.grad.row(batch, head, query).read(&mut wide_grad);
            let (weights, grad) = (&weights[..to.len()], &grad[..to.len()]);
            let mut sum = simd.zero();
            for (weights, grad) in weights.chunks(S::LANES).zip(grad.chunks(S::LANES)) {
                sum = simd.add(
                    sum,
                    product(simd, simd.load_partial(weights), simd.load_partial(grad)),
                );
            }
            let sum = simd.splat(simd.sum(sum));
            let chunks = weights.chunks(S::LANES).zip(grad.chunks(S::LANES));
            for ((weights, grad), to) in chunks.zip(to.chunks_mut(S::LANES)) {
                let difference = simd.sub(simd.load_partial(grad), sum);
                simd.store_partial(product(simd, simd.load_partial(weights), difference), to);
            }
        }
    }
}

/// `weights * x`, 0 where the weight is 0: a hidden key's gradient may hold anything.
#[inline(always)]
fn product<E: Real, S: Simd<E>>(simd: S, weights: S::V, x: S::V) -> S::V {
    let is_hidden = simd.less(
        simd.max(simd.sub(simd.zero(), weights), weights),
        simd.splat(E::SMALLEST),
    );
    simd.select(is_hidden, simd.zero(), simd.mul(weights, x))
}
