//! The gradients of all pairs.

use std::ops::Range;

use rayon::prelude::*;

use super::{AdditiveGradients, AdditiveScore};
use crate::Rows;
use crate::additive::gradient::{Side, add_gradients};
use crate::additive::{BLOCK, check_lens};
use crate::simd::{Job, Level, Real, Simd};

/// As [`AdditiveScore::backward`].
pub(in crate::additive) fn backward<E: Real>(
    problem: &AdditiveScore<E>,
    level: Level,
    grad: Rows<E>,
    gradients: AdditiveGradients<E>,
) {
    let parts = Parts::of(problem, &grad, gradients.keys);
    let [batch, heads, num_queries, units] = problem.queries.shape();
    check_lens(
        "AdditiveScore",
        [
            (
                "queries",
                gradients.queries.len(),
                batch * heads * num_queries * units,
            ),
            ("weight", gradients.weight.len(), units),
        ],
    );
    if parts.is_empty {
        return;
    }
    let tasks = parts.tasks(problem, &grad, gradients.keys);
    // With one part in each head, its queries' gradients go straight to where they belong.
    let query_len = num_queries * units;
    let mut partial_queries = match parts.count {
        1 => Vec::new(),
        _ => vec![E::ZERO; tasks.len() * query_len],
    };
    let mut partial_weights = vec![E::ZERO; tasks.len() * units];
    let query_slices = match parts.count {
        1 => gradients.queries.par_chunks_mut(query_len),
        _ => partial_queries.par_chunks_mut(query_len),
    };
    tasks
        .into_par_iter()
        .zip(query_slices)
        .zip(partial_weights.par_chunks_mut(units))
        .for_each(|((task, queries), weight)| {
            E::dispatch(
                level,
                Backward::<E, true> {
                    task,
                    queries,
                    weight,
                },
            );
        });
    for partial in partial_weights.chunks_exact(units) {
        add(partial, gradients.weight);
    }
    if parts.count > 1 {
        let heads = gradients.queries.par_chunks_mut(query_len);
        let partial = partial_queries.par_chunks(parts.count * query_len);
        heads.zip(partial).for_each(|(to, parts)| {
            for part in parts.chunks_exact(query_len) {
                add(part, to);
            }
        });
    }
}

/// As [`AdditiveScore::backward_keys`].
pub(in crate::additive) fn backward_keys<E: Real>(
    problem: &AdditiveScore<E>,
    level: Level,
    grad: Rows<E>,
    keys: &mut [E],
) {
    let parts = Parts::of(problem, &grad, keys);
    if parts.is_empty {
        return;
    }
    let tasks = parts.tasks(problem, &grad, keys);
    tasks.into_par_iter().for_each(|task| {
        E::dispatch(
            level,
            Backward::<E, false> {
                task,
                queries: &mut [],
                weight: &mut [],
            },
        );
    });
}

/// The keys of each head in parts, as many as there are queries and keys to keep every thread busy. By shape only, so
/// that the sums over keys are the same on every machine.
struct Parts {
    is_empty: bool,
    /// Parts of each head.
    count: usize,
    /// Keys in a part, but for the last one.
    keys: usize,
}

impl Parts {
    /// # Panics
    /// If the shapes do not fit together.
    fn of<E: Real>(problem: &AdditiveScore<E>, grad: &Rows<E>, keys: &[E]) -> Self {
        problem.check();
        let [batch, heads, num_queries, units] = problem.queries.shape();
        let [_, _, num_keys, _] = problem.keys.shape();
        let expected = [batch, heads, num_queries, num_keys];
        assert!(
            grad.shape() == expected,
            "AdditiveScore: gradient of the scores expected {expected:?}, got {:?}",
            grad.shape()
        );
        let expected = batch * heads * num_keys * units;
        check_lens("AdditiveScore", [("keys", keys.len(), expected)]);
        let heads = batch * heads;
        let parts = 8_usize
            .div_ceil(heads.max(1))
            .min(num_keys.div_ceil(4 * BLOCK))
            .max(1);
        let keys = num_keys.div_ceil(parts).next_multiple_of(BLOCK);
        Self {
            is_empty: heads * num_queries * num_keys * units == 0,
            count: num_keys.div_ceil(keys.max(1)),
            keys,
        }
    }

    fn tasks<'a, 'b, E: Real>(
        &self,
        problem: &'a AdditiveScore<'a, E>,
        grad: &'a Rows<'a, E>,
        keys: &'b mut [E],
    ) -> Vec<Task<'a, 'b, E>> {
        let [_, heads, num_keys, units] = problem.keys.shape();
        let mut tasks = Vec::with_capacity(keys.len() / (num_keys * units) * self.count);
        for (head, keys) in keys.chunks_mut(num_keys * units).enumerate() {
            let parts = keys.chunks_mut(self.keys * units).enumerate();
            tasks.extend(parts.map(|(part, keys)| Task {
                problem,
                grad,
                at: [head / heads, head % heads],
                range: part * self.keys..part * self.keys + keys.len() / units,
                keys,
            }));
        }
        tasks
    }
}

fn add<E: Real>(from: &[E], to: &mut [E]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
    }
}

/// Some keys of one head.
struct Task<'a, 'b, E> {
    problem: &'a AdditiveScore<'a, E>,
    grad: &'a Rows<'a, E>,
    at: [usize; 2],
    range: Range<usize>,
    /// Where their gradients are added, `[keys of the range, units]`.
    keys: &'b mut [E],
}

/// The gradients of a task; without `ALL`, those of the keys alone.
struct Backward<'a, 'b, 'c, E, const ALL: bool> {
    task: Task<'a, 'b, E>,
    /// `[queries, units]`, or empty.
    queries: &'c mut [E],
    /// `[units]`, or empty.
    weight: &'c mut [E],
}

impl<E: Real, const ALL: bool> Job<E> for Backward<'_, '_, '_, E, ALL> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Task {
            problem,
            grad,
            at,
            range: of_task,
            keys: to_keys,
        } = self.task;
        let AdditiveScore {
            queries,
            keys,
            weight,
            mask,
        } = problem;
        let [_, _, num_queries, units] = queries.shape();
        let [_, _, num_keys, _] = keys.shape();
        let [batch, head] = at;
        // Keys that no query sees are not looked at.
        let span = mask.span(batch, 0..num_queries, num_keys);
        let range = of_task.start.max(span.start)..of_task.end.min(span.end);
        if range.is_empty() {
            return;
        }
        let mut query_side = Side::default();
        query_side.fill_queries(simd, queries, at, 0..num_queries);
        let mut key_side = Side::default();
        key_side.fill_keys(simd, keys, at, range.clone());
        let mut copy;
        let in_place = grad.in_place(batch, head, 0..num_queries);
        let (grad, stride) = match in_place.filter(|_| mask.is_none()) {
            Some((grad, stride)) => (&grad[range.start..], stride),
            None => {
                copy = vec![E::ZERO; num_queries * range.len()];
                for (query, to) in copy.chunks_exact_mut(range.len()).enumerate() {
                    let row = grad.row(batch, head, query);
                    row.part(range.clone()).copy_to(to);
                    let visible = mask.visible(batch, head, query, num_keys);
                    visible.hide(&range, to, E::ZERO);
                }
                (&copy[..], range.len())
            }
        };
        let sides = [&mut query_side, &mut key_side];
        add_gradients::<E, S, ALL>(simd, sides, 0..range.len(), grad, stride, self.weight);
        if ALL {
            query_side.add_gradients_to(weight, self.queries);
        }
        let first = (range.start - of_task.start) * units;
        let len = range.len() * units;
        key_side.add_gradients_to(weight, &mut to_keys[first..first + len]);
    }
}
