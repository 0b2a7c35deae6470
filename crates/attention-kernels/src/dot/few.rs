//! Few queries per head, as a decoder asks them one step at a time.
//!
//! Each row of keys and values is then read only a few times, and packing it for the products of the streaming kernels
//! would cost as much as computing with it. Here a query takes its visible keys row by row, where they are: what a
//! hidden row holds is never looked at.

use rayon::prelude::*;

use super::rows::{add_multiples, dots, weighted_sum};
use super::{DotProduct, DotProductGradients};
use crate::simd::{Job, Level, Real, Simd};
use crate::{Rows, stream};

/// Up to this many queries packing does not pay.
pub(super) const FEW: usize = 4;

/// Multiply-adds in a task: some tens of microseconds, far above what handing it out costs.
const TASK: usize = 1 << 18;

/// How many key heads make a task.
fn heads_per_task<E: Real>(problem: &DotProduct<E>) -> usize {
    let ([_, heads, queries, size], [_, key_heads, keys, value_size]) =
        (problem.queries.shape(), problem.values.shape());
    let work = heads / key_heads * queries * keys * (size + value_size);
    TASK.div_ceil(work.max(1))
}

/// As [`super::dot_product_forward`], of checked sizes.
pub(super) fn forward<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: &mut [E],
    lse: &mut [E],
) {
    let [batch, heads, ..] = problem.queries.shape();
    let [_, key_heads, ..] = problem.keys.shape();
    if batch * heads == 0 {
        return;
    }
    let chunk = heads_per_task(problem) * (heads / key_heads);
    let context = stream::equal_parts(context, batch * heads);
    let lse = stream::equal_parts(lse, batch * heads);
    let slices = context.into_iter().zip(lse).enumerate();
    let mut rows: Vec<Outputs<E>> = slices
        .map(|(index, (context, lse))| Outputs {
            index,
            context,
            lse,
        })
        .collect();
    let run = |rows: &mut [Outputs<E>]| {
        E::dispatch(level, Forward { problem, rows });
    };
    if rows.len() <= chunk {
        run(&mut rows);
    } else {
        rows.par_chunks_mut(chunk).for_each(run);
    }
}

/// What is written of one head.
struct Outputs<'a, E> {
    index: usize,
    context: &'a mut [E],
    lse: &'a mut [E],
}

struct Forward<'a, 'b, E> {
    problem: &'a DotProduct<'a, E>,
    rows: &'a mut [Outputs<'b, E>],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self { problem, rows } = self;
        let [_, heads, ..] = problem.queries.shape();
        let [.., value_size] = problem.values.shape();
        let mut seen = Seen::default();
        for Outputs {
            index,
            context,
            lse,
        } in rows
        {
            let (batch, head) = (*index / heads, *index % heads);
            let key_head = problem.key_head(head);
            for (query, lse) in lse.iter_mut().enumerate() {
                let context = &mut context[query * value_size..(query + 1) * value_size];
                seen.score(simd, problem, [batch, head, query]);
                let most = largest(simd, &seen.scores);
                let sum = seen.weigh(simd, most);
                if sum == E::ZERO {
                    context.fill(E::ZERO);
                    *lse = -E::INFINITY;
                    continue;
                }
                *lse = E::from_f64(most.to_f64() + sum.to_f64().ln());
                let scale = E::from_f64(problem.dropout.map_or(1.0, |dropout| dropout.scale()));
                seen.keep(problem, [batch, head, query]);
                for (weight, &kept) in seen.weights.iter_mut().zip(&seen.kept) {
                    *weight = *weight * kept;
                }
                context.fill(E::ZERO);
                let place = [batch, key_head];
                let weights = &seen.weights;
                weighted_sum(
                    simd,
                    &seen.keys,
                    weights,
                    &problem.values,
                    place,
                    scale / sum,
                    context,
                );
            }
        }
    }
}

/// The keys that a query sees, and what is known about each.
#[derive(Default)]
struct Seen<E> {
    keys: Vec<usize>,
    scores: Vec<E>,
    weights: Vec<E>,
    /// 1, or 0 for a dropped weight.
    kept: Vec<E>,
    row: Vec<E>,
}

impl<E: Real> Seen<E> {
    /// Lists the keys that are not hidden and their natural logits.
    #[inline(always)]
    fn score<S: Simd<E>>(
        &mut self,
        simd: S,
        problem: &DotProduct<E>,
        [batch, head, query]: [usize; 3],
    ) {
        let [_, _, num_keys, _] = problem.keys.shape();
        let key_head = problem.key_head(head);
        let visible = problem.mask.visible(batch, head, query, num_keys);
        let bias = problem
            .bias
            .map(|bias| bias.row(batch, if bias.shape()[1] == 1 { 0 } else { head }, 0));
        self.keys.clear();
        for key in visible.range.clone() {
            if visible.sees(key) && bias.is_none_or(|bias| bias[key] != -E::INFINITY) {
                self.keys.push(key);
            }
        }
        self.scores.clear();
        self.scores.resize(self.keys.len(), E::ZERO);
        let row = problem.queries.row(batch, head, query);
        dots(
            simd,
            row,
            &self.keys,
            &problem.keys,
            [batch, key_head],
            &mut self.scores,
        );
        for (score, &key) in self.scores.iter_mut().zip(&self.keys) {
            *score = *score * problem.scale + bias.map_or(E::ZERO, |bias| bias[key]);
        }
        if self.scores.contains(&-E::INFINITY) {
            let mut scores = self.scores.iter();
            self.keys
                .retain(|_| scores.next().is_some_and(|&score| score != -E::INFINITY));
            self.scores.retain(|&score| score != -E::INFINITY);
        }
    }

    /// `weights = e^(scores - reference)`, at most 1. Returns their sum.
    #[inline(always)]
    fn weigh<S: Simd<E>>(&mut self, simd: S, reference: E) -> E {
        let (reference, log2_e) = (
            simd.splat(reference),
            simd.splat(E::from_f64(std::f64::consts::LOG2_E)),
        );
        self.weights.resize(self.scores.len(), E::ZERO);
        let (mut sum, mut rest) = (simd.zero(), E::ZERO);
        for (from, to) in self
            .scores
            .chunks(S::LANES)
            .zip(self.weights.chunks_mut(S::LANES))
        {
            let difference = simd.sub(simd.load_partial(from), reference);
            let weight = simd.exp2(simd.mul(simd.min(simd.zero(), difference), log2_e));
            simd.store_partial(weight, to);
            if to.len() == S::LANES {
                sum = simd.add(sum, weight);
            } else {
                rest = to.iter().copied().sum();
            }
        }
        simd.sum(sum) + rest
    }

    /// Draws what dropout keeps.
    #[inline(always)]
    fn keep(&mut self, problem: &DotProduct<E>, place: [usize; 3]) {
        self.kept.clear();
        let (Some(dropout), Some(&first), Some(&last)) =
            (problem.dropout, self.keys.first(), self.keys.last())
        else {
            self.kept.resize(self.keys.len(), E::ONE);
            return;
        };
        self.row.resize(last + 1 - first, E::ZERO);
        dropout.fill(place, first, E::ONE, &mut self.row);
        self.kept
            .extend(self.keys.iter().map(|key| self.row[key - first]));
    }
}

/// The largest number that is not NaN.
#[inline(always)]
fn largest<E: Real, S: Simd<E>>(simd: S, numbers: &[E]) -> E {
    let mut most = simd.splat(-E::INFINITY);
    let mut chunks = numbers.chunks_exact(S::LANES);
    for chunk in &mut chunks {
        most = simd.max(simd.load(chunk), most);
    }
    let rest = chunks.remainder().iter();
    rest.fold(
        simd.largest(most),
        |most, &x| if x > most { x } else { most },
    )
}

/// As [`super::dot_product_backward`], of checked sizes.
pub(super) fn backward<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: &[E],
    lse: &[E],
    context_gradient: Rows<E>,
    gradients: DotProductGradients<E>,
) {
    let [batch, heads, ..] = problem.queries.shape();
    let [_, key_heads, keys, _] = problem.keys.shape();
    if batch * heads == 0 {
        return;
    }
    let chunk = heads_per_task(problem);
    let count = batch * key_heads;
    let mut bias = vec![
        E::ZERO;
        if gradients.bias.is_some() {
            batch * heads * keys
        } else {
            0
        }
    ];
    let slices = stream::equal_parts(gradients.queries, count)
        .into_iter()
        .zip(stream::equal_parts(gradients.keys, count))
        .zip(stream::equal_parts(gradients.values, count))
        .zip(stream::equal_parts(&mut bias, count));
    let mut tasks: Vec<Sums<E>> = slices
        .enumerate()
        .map(|(index, (((queries, keys), values), bias))| Sums {
            index,
            queries,
            keys,
            values,
            bias,
        })
        .collect();
    let run = |sums: &mut [Sums<E>]| {
        E::dispatch(
            level,
            Backward {
                problem,
                context,
                lse,
                context_gradient,
                sums,
            },
        );
    };
    if tasks.len() <= chunk {
        run(&mut tasks);
    } else {
        tasks.par_chunks_mut(chunk).for_each(run);
    }
    if let Some(to) = gradients.bias {
        let shared = to.len() < bias.len();
        for (row, from) in bias.chunks(keys.max(1)).enumerate() {
            let row = if shared { row / heads } else { row };
            for (to, &from) in to[row * keys..].iter_mut().zip(from) {
                *to += from;
            }
        }
    }
}

/// Where the gradients of one key head are added.
struct Sums<'a, E> {
    index: usize,
    queries: &'a mut [E],
    keys: &'a mut [E],
    values: &'a mut [E],
    /// `[group, keys]`, or empty.
    bias: &'a mut [E],
}

struct Backward<'a, 'b, E> {
    problem: &'a DotProduct<'a, E>,
    context: &'a [E],
    lse: &'a [E],
    context_gradient: Rows<'a, E>,
    sums: &'a mut [Sums<'b, E>],
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            problem,
            context,
            lse,
            context_gradient,
            sums,
        } = self;
        let [_, heads, queries, size] = problem.queries.shape();
        let [_, key_heads, keys, value_size] = problem.values.shape();
        let group = heads / key_heads;
        let scale = E::from_f64(problem.dropout.map_or(1.0, |dropout| dropout.scale()));
        let mut seen = Seen::default();
        let mut gradient = Vec::new();
        for sums in sums {
            let (batch, key_head) = (sums.index / key_heads, sums.index % key_heads);
            let place = [batch, key_head];
            for (member, query) in (0..group * queries).map(|row| (row / queries, row % queries)) {
                let head = key_head * group + member;
                let row = (batch * heads + head) * queries + query;
                let at = [batch, head, query];
                seen.score(simd, problem, at);
                if seen.keys.is_empty() {
                    continue;
                }
                seen.weigh(simd, lse[row]);
                seen.keep(problem, at);
                let upstream = context_gradient.row(batch, head, query);
                let context = &context[row * value_size..][..value_size];
                let dot: E = context.iter().zip(upstream).map(|(&c, &g)| c * g).sum();
                gradient.clear();
                gradient.resize(seen.keys.len(), E::ZERO);
                dots(
                    simd,
                    upstream,
                    &seen.keys,
                    &problem.values,
                    place,
                    &mut gradient,
                );
                let lines = gradient.iter_mut().zip(&mut seen.weights).zip(&seen.kept);
                for ((gradient, weight), &kept) in lines {
                    *gradient = *weight * (*gradient * kept * scale - dot);
                    *weight = *weight * kept;
                }
                let row = member * queries + query;
                let query_sum = &mut sums.queries[row * size..][..size];
                let question = problem.queries.row(batch, head, query);
                weighted_sum(
                    simd,
                    &seen.keys,
                    &gradient,
                    &problem.keys,
                    place,
                    problem.scale,
                    query_sum,
                );
                add_multiples(
                    simd,
                    &seen.keys,
                    &gradient,
                    problem.scale,
                    question,
                    sums.keys,
                );
                add_multiples(
                    simd,
                    &seen.keys,
                    &seen.weights,
                    scale,
                    upstream,
                    sums.values,
                );
                if !sums.bias.is_empty() {
                    for (&key, &gradient) in seen.keys.iter().zip(&gradient) {
                        sums.bias[member * keys + key] += gradient;
                    }
                }
            }
        }
    }
}
