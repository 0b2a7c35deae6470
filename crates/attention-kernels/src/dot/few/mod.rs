//! Few queries per head, as a decoder asks them one step at a time.
//!
//! Each row of keys and values is then read only a few times, and packing it for the products of the streaming kernels
//! would cost as much as computing with it. Here a query takes its visible keys row by row, where they are: what a
//! hidden row holds is never looked at.

mod backward;
mod seen;

use rayon::prelude::*;

use super::DotProduct;
use crate::listed::weighted_sum;
use crate::simd::{Job, Level, Real, Simd};
use crate::stream;
use seen::{Seen, largest};

pub(super) use backward::backward;

/// Up to this many queries packing does not pay.
pub(super) const FEW: usize = 2;

/// Multiply-adds in a task: some tens of microseconds, far above what handing it out costs.
const TASK: usize = 1 << 18;

/// How many key heads make a task.
fn heads_per_task<E: Real>(problem: &DotProduct<E>) -> usize {
    let ([_, heads, queries, size], [_, key_heads, keys, value_size]) =
        (problem.queries.shape(), problem.values.shape());
    let work = heads / key_heads * queries * keys * (size + value_size);
    TASK.div_ceil(work.max(1))
}

/// As [`crate::dot_product_forward`], of checked sizes.
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
        let mut seen = Seen::of(problem);
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
