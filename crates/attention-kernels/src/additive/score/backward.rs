//! The gradients of all pairs.

use std::ops::Range;

use cpu_kernels::checks::{check_len, check_shape};
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::slices::{PartialSums, add, take};
use cpu_kernels::threads::for_each;
use cpu_kernels::{Buffer, Real};

use super::inputs::{AdditiveScoreGradients, AdditiveScoreInputs, OPERATION};
use crate::additive::gradient::{Operand, ScoreGradients};
use crate::heads::Heads;
use crate::stream::Wanted;
use crate::tiles::{KEY_LANES, SCORE_KEYS, SCORE_TASKS};
use crate::{HeadIndex, Rows};

/// As [`AdditiveScoreInputs::backward`].
pub(crate) fn backward<E: Real>(
    inputs: &AdditiveScoreInputs<E>,
    level: Level,
    score_gradients: Rows<E>,
    gradients: AdditiveScoreGradients<E>,
) {
    let heads = check(inputs, &score_gradients, &gradients);
    let (queries, mut keys, weight) = (gradients.queries, gradients.keys, gradients.weight);
    let wanted = Wanted {
        queries: queries.is_some(),
        keys: keys.is_some(),
        shared: weight.is_some(),
        ..Wanted::default()
    };
    let [.., units] = inputs.queries.shape();
    let parts = parts(inputs, heads);
    if parts.is_empty() {
        return;
    }
    let count = heads.key_count();
    let mut queries = queries.map(|to| PartialSums::new(to, parts.len()));
    let mut of_queries = queries.as_mut().map(|sums| sums.split(count).into_iter());
    let mut partial_weights = Buffer::zeroed(count * parts.len() * units);
    let of_weights = partial_weights.chunks_exact_mut(units);
    let tasks = of_weights.enumerate().map(|(index, weight_sums)| {
        let range = parts[index % parts.len()].clone();
        let len = range.len() * units;
        Task {
            inputs,
            heads,
            score_gradients: &score_gradients,
            wanted,
            key: HeadIndex::nth(index / parts.len(), heads.key_heads),
            range,
            keys: keys.as_mut().map(|keys| take(keys, len)),
            queries: of_queries.as_mut().and_then(Iterator::next),
            weight_sums,
        }
    });
    let tasks: Vec<_> = tasks.collect();
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
    if let Some(sums) = queries {
        sums.add_up(count);
    }
    if let Some(weight) = weight {
        for partial in partial_weights.chunks_exact(units) {
            add(partial, weight);
        }
    }
}

/// # Panics
/// If the shapes do not fit together.
fn check<E: Real>(
    inputs: &AdditiveScoreInputs<E>,
    score_gradients: &Rows<E>,
    gradients: &AdditiveScoreGradients<E>,
) -> Heads {
    let heads = inputs.check(OPERATION);
    let [_, _, num_queries, units] = inputs.queries.shape();
    let [_, _, num_keys, _] = inputs.keys.shape();
    let shape = [heads.batch, heads.heads, num_queries, num_keys];
    inputs.mask.check(shape);
    check_shape(OPERATION, "score gradients", shape, score_gradients.shape());
    if let Some(queries) = &gradients.queries {
        let expected = inputs.queries.shape();
        check_len(OPERATION, "query gradient", expected, queries.len());
    }
    if let Some(keys) = &gradients.keys {
        check_len(OPERATION, "key gradient", inputs.keys.shape(), keys.len());
    }
    if let Some(weight) = &gradients.weight {
        check_len(OPERATION, "weight gradient", [units], weight.len());
    }
    heads
}

/// The parts of the keys of each key head, enough to keep every thread busy; none without work. They depend on shapes
/// alone, so that the sums over keys are the same on every machine.
fn parts<E: Real>(inputs: &AdditiveScoreInputs<E>, heads: Heads) -> Vec<Range<usize>> {
    let [_, _, num_queries, units] = inputs.queries.shape();
    let [_, _, num_keys, _] = inputs.keys.shape();
    if heads.count() * num_queries * num_keys * units == 0 {
        return Vec::new();
    }
    let most = num_keys.div_ceil(SCORE_KEYS);
    let parts = SCORE_TASKS.div_ceil(heads.key_count()).min(most);
    let part = num_keys.div_ceil(parts).next_multiple_of(KEY_LANES);
    let starts = (0..num_keys).step_by(part);
    let ranges = starts.map(|first| first..num_keys.min(first + part));
    ranges.collect()
}

/// Some keys of one head.
struct Task<'a, 'b, E> {
    inputs: &'a AdditiveScoreInputs<'a, E>,
    heads: Heads,
    score_gradients: &'a Rows<'a, E>,
    wanted: Wanted,
    key: HeadIndex,
    range: Range<usize>,
    /// The gradients of these keys, to add to, `[keys of the range, units]`.
    keys: Option<&'b mut [E]>,
    /// The gradients of the queries, to add to, `[group, queries, units]`.
    queries: Option<&'b mut [E]>,
    /// The gradient of the weight, to add to, `[units]`.
    weight_sums: &'b mut [E],
}

impl<E: Real> Job<E> for Task<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let (score_gradients, key) = (self.score_gradients, self.key);
        let AdditiveScoreInputs { queries, keys, .. } = self.inputs;
        let (weight, mask) = (self.inputs.weight, self.inputs.mask);
        let [_, _, num_queries, units] = queries.shape();
        let [_, _, num_keys, _] = keys.shape();
        // Keys that no query attends to are not read.
        let span = mask.span(key.batch, 0..num_queries, num_keys);
        let range = self.range.start.max(span.start)..self.range.end.min(span.end);
        if range.is_empty() {
            return;
        }
        let (mut query_operand, mut key_operand) = (Operand::default(), Operand::default());
        key_operand.fill_keys(simd, keys, key, range.clone());
        let mut copy = Vec::new();
        let first = (range.start - self.range.start) * units;
        let of_range = first..first + range.len() * units;
        let mut to_keys = self.keys.map(|keys| &mut keys[of_range]);
        for member in 0..self.heads.group() {
            if member > 0 {
                // Each head is summed by itself, because the rounding error of a sum grows with the number of terms.
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
            let (of_queries, of_keys) = (&mut query_operand, &mut key_operand);
            scores.add(simd, self.wanted, of_queries, of_keys, self.weight_sums);
            if let Some(to) = &mut self.queries {
                let len = num_queries * units;
                let to = &mut to[member * len..(member + 1) * len];
                query_operand.add_gradients_to(weight, to);
            }
            if let Some(to) = &mut to_keys {
                key_operand.add_gradients_to(weight, to);
            }
        }
    }
}
