//! Softmax over the keys that each query sees.

use rayon::prelude::*;

use crate::Mask;
use crate::simd::{Job, Level, Real, Simd};

/// Numbers in a task: some tens of microseconds, far above what handing it out costs.
const TASK: usize = 1 << 15;

/// Masked softmax over the last axis: `weights = exp(scores - max) / sum` over the visible keys, 0 elsewhere.
///
/// A row without a visible key is 0; so is a key whose score is minus infinity.
///
/// # Shapes
/// - shape `[batch, heads, queries, keys]` of scores and weights, both contiguous
///
/// # Panics
/// If a slice has not as many numbers as `shape`.
pub fn masked_softmax<E: Real>(
    level: Level,
    shape: [usize; 4],
    mask: &Mask,
    scores: &[E],
    weights: &mut [E],
) {
    check(
        shape,
        &[("scores", scores.len()), ("weights", weights.len())],
    );
    mask.check(shape);
    let Some(task_rows) = task_rows(shape) else {
        return;
    };
    let len = task_rows * shape[3];
    let tasks = weights.par_chunks_mut(len).zip(scores.par_chunks(len));
    tasks.enumerate().for_each(|(task, (weights, scores))| {
        let rows = Rows {
            shape,
            mask,
            first: task * task_rows,
        };
        E::dispatch(
            level,
            Forward {
                rows,
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
/// - shape `[batch, heads, queries, keys]` of weights, grad and result, all contiguous
///
/// # Panics
/// If a slice has not as many numbers as `shape`.
pub fn masked_softmax_backward<E: Real>(
    level: Level,
    shape: [usize; 4],
    weights: &[E],
    grad: &[E],
    grad_scores: &mut [E],
) {
    let lens = [
        ("weights", weights.len()),
        ("grad", grad.len()),
        ("grad_scores", grad_scores.len()),
    ];
    check(shape, &lens);
    let Some(task_rows) = task_rows(shape) else {
        return;
    };
    let num_keys = shape[3];
    let len = task_rows * num_keys;
    let tasks = grad_scores.par_chunks_mut(len).zip(weights.par_chunks(len));
    tasks
        .zip(grad.par_chunks(len))
        .for_each(|((to, weights), grad)| {
            E::dispatch(
                level,
                Backward {
                    num_keys,
                    weights,
                    grad,
                    to,
                },
            );
        });
}

fn check(shape: [usize; 4], lens: &[(&str, usize)]) {
    let expected: usize = shape.iter().product();
    for (name, found) in lens {
        assert!(
            *found == expected,
            "masked_softmax: {name} of {shape:?} expected {expected} numbers, got {found}"
        );
    }
}

/// Rows in a task, or `None` if there is nothing to do.
fn task_rows(shape: [usize; 4]) -> Option<usize> {
    match shape.contains(&0) {
        true => None,
        false => Some((TASK / shape[3]).max(1)),
    }
}

/// Which rows of the whole a task has.
struct Rows<'a> {
    shape: [usize; 4],
    mask: &'a Mask<'a>,
    first: usize,
}

struct Forward<'a, E> {
    rows: Rows<'a>,
    scores: &'a [E],
    weights: &'a mut [E],
}

impl<E: Real> Job<E> for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Rows {
            shape: [_, heads, num_queries, num_keys],
            mask,
            first,
        } = self.rows;
        let rows = self
            .weights
            .chunks_exact_mut(num_keys)
            .zip(self.scores.chunks_exact(num_keys));
        for (row, (weights, scores)) in (first..).zip(rows) {
            let (head, query) = (row / num_queries, row % num_queries);
            let visible = mask.visible(head / heads, head % heads, query, num_keys);
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
    num_keys: usize,
    weights: &'a [E],
    grad: &'a [E],
    to: &'a mut [E],
}

impl<E: Real> Job<E> for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let rows = self.to.chunks_exact_mut(self.num_keys);
        let rows = rows.zip(self.weights.chunks_exact(self.num_keys));
        for ((to, weights), grad) in rows.zip(self.grad.chunks_exact(self.num_keys)) {
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
