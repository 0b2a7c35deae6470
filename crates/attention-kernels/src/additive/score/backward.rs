//! The gradients of all pairs.

use std::marker::PhantomData;
use std::ops::Range;

use cpu_kernels::checks::{check_len, check_shape};
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::slices::{PartialSums, add};
use cpu_kernels::threads::for_each;
use cpu_kernels::{Buffer, Real};

use super::inputs::{AdditiveScoreGradients, AdditiveScoreInputs, OPERATION};
use crate::additive::gradient::{All, KeysOnly, Operand, ScoreGradients, Wanted};
use crate::heads::Heads;
use crate::tiles::{KEY_LANES, SCORE_KEYS, SCORE_TASKS};
use crate::{HeadIndex, Rows};

/// As [`AdditiveScoreInputs::backward`].
pub(crate) fn backward<E: Real>(
    inputs: &AdditiveScoreInputs<E>,
    level: Level,
    score_gradients: Rows<E>,
    gradients: AdditiveScoreGradients<E>,
) {
    let AdditiveScoreGradients {
        queries,
        keys,
        weight,
    } = gradients;
    let heads = check(inputs, &score_gradients, keys);
    let [.., units] = inputs.queries.shape();
    check_len(
        OPERATION,
        "query gradient",
        inputs.queries.shape(),
        queries.len(),
    );
    check_len(OPERATION, "weight gradient", [units], weight.len());
    let mut tasks: Vec<Task<E, All>> = tasks(inputs, heads, &score_gradients, keys);
    if tasks.is_empty() {
        return;
    }
    let mut queries = PartialSums::new(queries, tasks.len() / heads.key_count());
    let mut partial_weights = Buffer::zeroed(tasks.len() * units);
    let slices = queries.split(heads.key_count()).into_iter();
    let slices = slices.zip(partial_weights.chunks_exact_mut(units));
    for (task, (queries, weight)) in tasks.iter_mut().zip(slices) {
        (task.queries, task.weight_sums) = (queries, weight);
    }
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
    queries.add_up(heads.key_count());
    for partial in partial_weights.chunks_exact(units) {
        add(partial, weight);
    }
}

/// As [`AdditiveScoreInputs::backward_keys`].
pub(crate) fn backward_keys<E: Real>(
    inputs: &AdditiveScoreInputs<E>,
    level: Level,
    score_gradients: Rows<E>,
    keys: &mut [E],
) {
    let heads = check(inputs, &score_gradients, keys);
    let tasks: Vec<Task<E, KeysOnly>> = tasks(inputs, heads, &score_gradients, keys);
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
}

/// # Panics
/// If the shapes do not fit together.
fn check<E: Real>(inputs: &AdditiveScoreInputs<E>, score_gradients: &Rows<E>, keys: &[E]) -> Heads {
    let heads = inputs.check(OPERATION);
    let [_, _, num_queries, _] = inputs.queries.shape();
    let [_, _, num_keys, _] = inputs.keys.shape();
    let shape = [heads.batch, heads.heads, num_queries, num_keys];
    inputs.mask.check(shape);
    check_shape(OPERATION, "score gradients", shape, score_gradients.shape());
    check_len(OPERATION, "key gradient", inputs.keys.shape(), keys.len());
    heads
}

/// The keys of each key head in parts, as many as there are queries and keys to keep every thread busy; none if there
/// is nothing to do. By shape only, so that the sums over keys are the same on every machine.
fn tasks<'a, 'b, E: Real, W>(
    inputs: &'a AdditiveScoreInputs<'a, E>,
    heads: Heads,
    score_gradients: &'a Rows<'a, E>,
    keys: &'b mut [E],
) -> Vec<Task<'a, 'b, E, W>> {
    let [_, _, num_queries, units] = inputs.queries.shape();
    let [_, _, num_keys, _] = inputs.keys.shape();
    if heads.count() * num_queries * num_keys * units == 0 {
        return Vec::new();
    }
    let most = num_keys.div_ceil(SCORE_KEYS);
    let parts = SCORE_TASKS.div_ceil(heads.key_count()).min(most);
    let part = num_keys.div_ceil(parts).next_multiple_of(KEY_LANES);
    let mut tasks = Vec::with_capacity(heads.key_count() * num_keys.div_ceil(part));
    for (index, keys) in keys.chunks_mut(num_keys * units).enumerate() {
        for (first, keys) in (0..).step_by(part).zip(keys.chunks_mut(part * units)) {
            tasks.push(Task {
                inputs,
                heads,
                score_gradients,
                key: HeadIndex::nth(index, heads.key_heads),
                range: first..first + keys.len() / units,
                keys,
                queries: &mut [],
                weight_sums: &mut [],
                wanted: PhantomData,
            });
        }
    }
    tasks
}

/// Some keys of one head.
struct Task<'a, 'b, E, W> {
    inputs: &'a AdditiveScoreInputs<'a, E>,
    heads: Heads,
    score_gradients: &'a Rows<'a, E>,
    key: HeadIndex,
    range: Range<usize>,
    /// Where their gradients are added, `[keys of the range, units]`.
    keys: &'b mut [E],
    /// Where those of the queries are added, `[group, queries, units]`; empty if they are not wanted.
    queries: &'b mut [E],
    /// Where that of the weight is added, `[units]`; empty if it is not wanted.
    weight_sums: &'b mut [E],
    wanted: PhantomData<W>,
}

impl<E: Real, W: Wanted> Job<E> for Task<'_, '_, E, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            score_gradients,
            key,
            ..
        } = self;
        let AdditiveScoreInputs {
            queries,
            keys,
            weight,
            mask,
        } = self.inputs;
        let [_, _, num_queries, units] = queries.shape();
        let [_, _, num_keys, _] = keys.shape();
        // Keys that no query attends to are not looked at.
        let span = mask.span(key.batch, 0..num_queries, num_keys);
        let range = self.range.start.max(span.start)..self.range.end.min(span.end);
        if range.is_empty() {
            return;
        }
        let (mut query_operand, mut key_operand) = (Operand::default(), Operand::default());
        key_operand.fill_keys(simd, keys, key, range.clone());
        let mut copy = Vec::new();
        let first = (range.start - self.range.start) * units;
        let to_keys = &mut self.keys[first..first + range.len() * units];
        for member in 0..self.heads.group() {
            if member > 0 {
                // Each head's sum by itself: its rounding grows with the number of terms.
                key_operand.clear_sums();
            }
            let at = self.heads.member(key, member);
            query_operand.fill_queries(simd, queries, at, 0..num_queries);
            let in_place = score_gradients.in_place(at, 0..num_queries);
            let (gradient, stride) = match in_place.filter(|_| mask.is_none()) {
                Some((gradient, stride)) => (&gradient[range.start..], stride),
                None => {
                    copy.resize(num_queries * range.len(), E::ZERO);
                    for (query, to) in copy.chunks_exact_mut(range.len()).enumerate() {
                        let row = score_gradients.row(at, query);
                        row.part(range.clone()).copy_to(to);
                        let mask = mask.of_query(at, query, num_keys);
                        mask.fill(&range, to, E::ZERO);
                    }
                    (&copy[..], range.len())
                }
            };
            let scores = ScoreGradients {
                keys: 0..range.len(),
                gradient,
                stride,
            };
            let weight_sums = &mut *self.weight_sums;
            scores.add::<S, W>(simd, &mut query_operand, &mut key_operand, weight_sums);
            if W::QUERIES {
                let len = num_queries * units;
                let to = &mut self.queries[member * len..(member + 1) * len];
                query_operand.add_gradients_to(weight, to);
            }
            key_operand.add_gradients_to(weight, to_keys);
        }
    }
}
