//! The gradients of few queries.

use rayon::prelude::*;

use super::slopes::Slopes;
use super::{Head, Listed, Scratch, TASK};
use crate::Rows;
use crate::additive::AdditiveAttention;
use crate::additive::pack::Weights;
use crate::listed::{add_multiples, dots};
use crate::pairs::Pairs;
use crate::simd::{Job, Level, Real, Simd};

/// The gradients of checked sizes: added to `queries` and `weight`, and to where `pairs` says.
pub(in crate::additive) fn backward<E: Real>(
    problem: &AdditiveAttention<E>,
    weights: &Weights<E>,
    level: Level,
    context_gradient: Rows<E>,
    queries: &mut [E],
    weight: &mut [E],
    pairs: Pairs<E>,
) {
    let [batch, heads, num_queries, units] = problem.score.queries.shape();
    let mut partial_weights = vec![E::ZERO; batch * heads * units];
    queries
        .par_chunks_mut(num_queries * units)
        .zip(pairs.split(batch * heads))
        .zip(partial_weights.par_chunks_mut(units))
        .enumerate()
        .with_min_len(TASK)
        .for_each_init(
            Scratch::default,
            |scratch, (head, ((queries, pairs), weight))| {
                let head = Head {
                    problem,
                    weights,
                    at: [head / heads, head % heads],
                };
                E::dispatch(
                    level,
                    Backward {
                        head,
                        scratch,
                        context_gradient,
                        queries,
                        weight,
                        pairs,
                    },
                );
            },
        );
    for partial in partial_weights.chunks_exact(units) {
        for (to, from) in weight.iter_mut().zip(partial) {
            *to += *from;
        }
    }
}

/// The gradients of one head.
struct Backward<'a, 'b, E> {
    head: Head<'a, E>,
    scratch: &'b mut Scratch<'a, E>,
    context_gradient: Rows<'a, E>,
    queries: &'b mut [E],
    weight: &'b mut [E],
    pairs: Pairs<'b, E>,
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            head,
            scratch,
            context_gradient,
            queries,
            weight,
            mut pairs,
        } = self;
        let values = &head.problem.values;
        let [_, _, num_keys, _] = values.shape();
        head.attend(simd, scratch, None);
        let Scratch {
            attended,
            listed,
            slopes: sums,
            upstream,
            ..
        } = scratch;
        let (first, stride) = (attended.first, attended.stride);
        // In place of the weights, the gradients of the scores: ds = p (f dw - D), D = sum p f dw, dw = dC . v.
        for query in 0..attended.visible.len() {
            let gradient = context_gradient.row(head.at[0], head.at[1], query);
            let gradient = gradient.read(upstream);
            attended.list(&head, query, listed);
            listed.slopes.resize(listed.keys.len(), E::ZERO);
            dots(
                simd,
                gradient,
                &listed.keys,
                values,
                head.at,
                &mut listed.slopes,
            );
            let mut total = E::ZERO;
            let lines = listed.slopes.iter_mut().zip(&listed.factors);
            for ((slope, factor), weight) in lines.zip(&listed.weights) {
                *slope = *slope * *factor;
                total += *weight * *slope;
            }
            let row = &mut attended.weights[query * stride..(query + 1) * stride];
            row.fill(E::ZERO);
            let lines = listed.keys.iter().zip(&listed.weights).zip(&listed.slopes);
            for ((key, weight), slope) in lines {
                row[key - first] = *weight * (*slope - total);
            }
            listed.drop_weights();
            let Listed { keys, weights, .. } = &*listed;
            match &mut pairs {
                Pairs::Add { values, .. } => {
                    add_multiples(simd, keys, weights, E::ONE, gradient, values);
                }
                Pairs::Keep { weights: to, .. } => {
                    let to = &mut to[query * num_keys..(query + 1) * num_keys];
                    for (key, weight) in keys.iter().zip(weights) {
                        to[*key] = *weight;
                    }
                }
            }
        }
        let last = num_keys.min(first + stride);
        let slopes = Slopes {
            head: &head,
            keys: first..last,
            gradient: &attended.weights,
            stride,
        };
        match pairs {
            Pairs::Add { keys, .. } => slopes.add::<S, true>(simd, sums, queries, keys, weight),
            Pairs::Keep { scores, .. } => {
                slopes.add::<S, false>(simd, sums, queries, &mut [], weight);
                let rows = attended.weights.chunks_exact(stride.max(1));
                for (from, to) in rows.zip(scores.chunks_exact_mut(num_keys)) {
                    to[first..last].copy_from_slice(&from[..last - first]);
                }
            }
        }
    }
}
