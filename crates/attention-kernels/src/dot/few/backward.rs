//! The gradients of few queries.

use rayon::prelude::*;

use super::heads_per_task;
use super::seen::Seen;
use crate::dot::DotProduct;
use crate::listed::{add_multiples, dots, weighted_sum};
use crate::pairs::Pairs;
use crate::simd::{Job, Level, Real, Simd};
use crate::stream::{self, Outputs};

/// The gradients of checked sizes: added to `queries` and `bias`, and to where `pairs` says.
pub(in crate::dot) fn backward<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    outputs: &Outputs<E>,
    queries: &mut [E],
    pairs: Pairs<E>,
    to_bias: Option<&mut [E]>,
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
        if to_bias.is_some() {
            batch * heads * keys
        } else {
            0
        }
    ];
    let slices = stream::equal_parts(queries, count)
        .into_iter()
        .zip(pairs.split(count))
        .zip(stream::equal_parts(&mut bias, count));
    let mut tasks: Vec<Sums<E>> = slices
        .enumerate()
        .map(|(index, ((queries, pairs), bias))| Sums {
            index,
            queries,
            pairs,
            bias,
        })
        .collect();
    let run = |sums: &mut [Sums<E>]| {
        E::dispatch(
            level,
            Backward {
                problem,
                outputs,
                sums,
            },
        );
    };
    if tasks.len() <= chunk {
        run(&mut tasks);
    } else {
        tasks.par_chunks_mut(chunk).for_each(run);
    }
    if let Some(to) = to_bias {
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
    pairs: Pairs<'a, E>,
    /// `[group, keys]`, or empty.
    bias: &'a mut [E],
}

struct Backward<'a, 'b, E> {
    problem: &'a DotProduct<'a, E>,
    outputs: &'a Outputs<'a, E>,
    sums: &'a mut [Sums<'b, E>],
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            problem,
            outputs,
            sums,
        } = self;
        let Outputs {
            context,
            lse,
            context_gradient,
        } = outputs;
        let [_, heads, queries, size] = problem.queries.shape();
        let [_, key_heads, keys, _] = problem.values.shape();
        let group = heads / key_heads;
        let scale = E::from_f64(problem.dropout.map_or(1.0, |dropout| dropout.scale()));
        let mut seen = Seen::of(problem);
        let mut gradient = Vec::new();
        let [context_scratch, upstream_scratch] = &mut [Vec::new(), Vec::new()];
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
                let upstream = context_gradient
                    .row(batch, head, query)
                    .read(upstream_scratch);
                let context = context.row(batch, head, query).read(context_scratch);
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
                weighted_sum(
                    simd,
                    &seen.keys,
                    &gradient,
                    &problem.keys,
                    place,
                    problem.scale,
                    query_sum,
                );
                match &mut sums.pairs {
                    Pairs::Add {
                        keys: to_keys,
                        values: to_values,
                    } => {
                        let Seen { keys, weights, .. } = &seen;
                        add_multiples(
                            simd,
                            keys,
                            &gradient,
                            seen.rest_of_scale(),
                            &seen.query,
                            to_keys,
                        );
                        add_multiples(simd, keys, weights, scale, upstream, to_values);
                    }
                    Pairs::Keep { scores, weights } => {
                        let lines = seen.keys.iter().zip(&gradient).zip(&seen.weights);
                        for ((key, &gradient), &weight) in lines {
                            scores[row * keys + key] = gradient;
                            weights[row * keys + key] = weight * scale;
                        }
                    }
                }
                if !sums.bias.is_empty() {
                    for (&key, &gradient) in seen.keys.iter().zip(&gradient) {
                        sums.bias[member * keys + key] += gradient;
                    }
                }
            }
        }
    }
}
