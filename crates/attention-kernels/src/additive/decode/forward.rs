//! Context and log-sum-exp of a decoding step.

use super::attended::GroupWeights;
use super::{Decode, Group};
use crate::Real;
use crate::gather::AttendedKeys;
use crate::simd::{Job, Level, Simd};
use crate::threads::for_each_with;
use crate::tiles::DECODE_HEADS;

/// Writes context and log-sum-exp, of checked sizes.
pub(in crate::additive) fn forward<E: Real>(
    level: Level,
    attention: &Decode<E>,
    context: &mut [E],
    lse: &mut [f64],
) {
    let heads = attention.score.heads;
    let [_, _, num_queries, _] = attention.score.inputs.queries.shape();
    let [.., value_size] = attention.values.shape();
    let rows = heads.group() * num_queries;
    let tasks = context.chunks_mut(rows * value_size);
    let tasks = tasks.zip(lse.chunks_mut(rows)).enumerate();
    let least = DECODE_HEADS.div_ceil(heads.group());
    for_each_with(tasks, least, Scratch::default, |scratch, task| {
        let (index, (context, lse)) = task;
        let job = Forward {
            group: Group::nth(attention, index),
            scratch,
            context,
            lse,
        };
        E::dispatch(level, job);
    });
}

/// What a thread needs for each group anew.
#[derive(Default)]
struct Scratch<'a, E> {
    weights: GroupWeights<'a, E>,
    attended: AttendedKeys<E>,
}

struct Forward<'a, 'b, E> {
    group: Group<'a, E>,
    scratch: &'b mut Scratch<'a, E>,
    /// `[group, queries, value_size]`
    context: &'b mut [E],
    /// `[group, queries]`
    lse: &'b mut [f64],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            group,
            scratch: Scratch { weights, attended },
            context,
            lse,
        } = self;
        let values = &group.attention.values;
        let [.., value_size] = values.shape();
        weights.compute(simd, &group, Some(lse));
        context.fill(E::ZERO);
        for (row, context) in context.chunks_exact_mut(value_size).enumerate() {
            weights.list(&group, row, attended);
            attended.apply_dropout();
            let values = attended.rows(values, group.key);
            values.weighted_sum(simd, &attended.weights, E::ONE, context);
        }
    }
}
