//! Softmax over the keys that each query attends to.

use cpu_kernels::Real;
use cpu_kernels::checks::{check_len, check_shape};
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::softmax::{Normalization, softmax};
use cpu_kernels::threads::{TASK_ELEMENTS, for_each};

use crate::{AttentionReal, HeadIndex, Mask, Rows};

const OPERATION: &str = "masked softmax";

/// Masked softmax over the last axis: `weights = exp(scores - max) / sum` over the keys that the query attends to, 0
/// elsewhere.
///
/// The weights are 0 for a query that attends to no key, and for a key whose score is minus infinity.
///
/// PyTorch equivalent: `F.softmax(scores.masked_fill(~mask, -inf), -1)`, which gives NaN for a query that attends to no
/// key.
///
/// # Shapes
/// - scores, weights `[batch, heads, queries, keys]`, weights contiguous
///
/// # Panics
/// If weights or mask do not fit the scores.
pub fn masked_softmax<E: AttentionReal>(
    level: Level,
    mask: &Mask,
    scores: Rows<E>,
    weights: &mut [E],
) {
    E::masked_softmax(level, mask, scores, weights);
}

/// The gradient of [`masked_softmax`]: `weights (gradient - sum weights gradient)`, and 0 for masked keys, whatever
/// `gradient` holds there.
///
/// # Shapes
/// - weights, gradient, score_gradients `[batch, heads, queries, keys]`, score_gradients contiguous
///
/// # Panics
/// If the shapes differ.
pub fn masked_softmax_backward<E: AttentionReal>(
    level: Level,
    weights: Rows<E>,
    gradient: Rows<E>,
    score_gradients: &mut [E],
) {
    E::masked_softmax_backward(level, weights, gradient, score_gradients);
}

pub(crate) fn forward<E: Real>(level: Level, mask: &Mask, scores: Rows<E>, weights: &mut [E]) {
    check_len(OPERATION, "weights", scores.shape(), weights.len());
    mask.check(scores.shape());
    run_tasks(scores.shape(), weights, |first, weights| {
        let task = Forward {
            mask,
            first,
            scores,
            weights,
        };
        E::dispatch(level, task);
    });
}

pub(crate) fn backward<E: Real>(
    level: Level,
    weights: Rows<E>,
    gradient: Rows<E>,
    score_gradients: &mut [E],
) {
    let shape = weights.shape();
    check_shape(OPERATION, "gradient", shape, gradient.shape());
    check_len(OPERATION, "score gradients", shape, score_gradients.len());
    run_tasks(shape, score_gradients, |first, score_gradients| {
        let task = Backward {
            first,
            weights,
            gradient,
            score_gradients,
        };
        E::dispatch(level, task);
    });
}

/// Runs `task` on each part of `out`, with the index of its first row.
fn run_tasks<E: Real>(shape: [usize; 4], out: &mut [E], task: impl Fn(usize, &mut [E]) + Sync) {
    if shape.contains(&0) {
        return;
    }
    let [.., num_keys] = shape;
    let rows = (TASK_ELEMENTS / num_keys).max(1);
    let parts = out.chunks_mut(rows * num_keys).enumerate();
    for_each(parts, |(part, out)| task(part * rows, out));
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
        let [_, heads, num_queries, num_keys] = self.scores.shape();
        let mut wide = Vec::new();
        let rows = self.weights.chunks_exact_mut(num_keys);
        for (row, weights) in (self.first..).zip(rows) {
            let (at, query) = (HeadIndex::nth(row / num_queries, heads), row % num_queries);
            let scores = self.scores.row(at, query).read(&mut wide);
            let mask = self.mask.of_query(at, query, num_keys);
            let range = mask.range.clone();
            weights[..range.start].fill(E::ZERO);
            weights[range.end..].fill(E::ZERO);
            weights[range.clone()].copy_from_slice(&scores[range.clone()]);
            mask.fill(&range, &mut weights[range.clone()], -E::INFINITY);
            let Normalization { sum, .. } = softmax(simd, &mut weights[range.clone()]);
            if sum.to_f64().is_nan() {
                // An unmasked NaN reaches every unmasked weight of its row, also one that underflows.
                for key in range.filter(|key| mask.attends(*key)) {
                    if scores[key] != -E::INFINITY {
                        weights[key] = sum;
                    }
                }
            }
        }
    }
}

struct Backward<'a, E> {
    /// The first row.
    first: usize,
    weights: Rows<'a, E>,
    gradient: Rows<'a, E>,
    score_gradients: &'a mut [E],
}

impl<E: Real> Job<E> for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let [_, heads, num_queries, num_keys] = self.weights.shape();
        let (mut wide_weights, mut wide_gradient) = (Vec::new(), Vec::new());
        let rows = self.score_gradients.chunks_exact_mut(num_keys);
        for (row, to) in (self.first..).zip(rows) {
            let (at, query) = (HeadIndex::nth(row / num_queries, heads), row % num_queries);
            let weights = self.weights.row(at, query).read(&mut wide_weights);
            let gradient = self.gradient.row(at, query).read(&mut wide_gradient);
            let (weights, gradient) = (&weights[..to.len()], &gradient[..to.len()]);
            let mut sum = simd.zero();
            for (weights, gradient) in weights.chunks(S::LANES).zip(gradient.chunks(S::LANES)) {
                let weights = simd.load_partial(weights);
                sum = simd.add(sum, product(simd, weights, simd.load_partial(gradient)));
            }
            let sum = simd.splat(simd.sum(sum));
            let chunks = weights.chunks(S::LANES).zip(gradient.chunks(S::LANES));
            for ((weights, gradient), to) in chunks.zip(to.chunks_mut(S::LANES)) {
                let difference = simd.sub(simd.load_partial(gradient), sum);
                simd.store_partial(product(simd, simd.load_partial(weights), difference), to);
            }
        }
    }
}

/// `weights * x`, 0 where the weight is 0: the gradient of a masked key may hold anything.
#[inline(always)]
fn product<E: Real, S: Simd<E>>(simd: S, weights: S::V, x: S::V) -> S::V {
    let magnitude = simd.max(simd.sub(simd.zero(), weights), weights);
    let is_masked = simd.less(magnitude, simd.splat(E::SMALLEST));
    simd.select(is_masked, simd.zero(), simd.mul(weights, x))
}
