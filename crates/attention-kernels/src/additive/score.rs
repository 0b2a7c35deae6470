//! Additive scores of all pairs, `[batch, heads, queries, keys]`.

use std::ops::Range;

use rayon::prelude::*;

use super::gradient::{Side, add_gradients};
use super::pack::{PackedQueries, Weights, pack_keys, packed_block_len};
use super::tile::{KeyBlock, Target, tile_scores};
use super::{BLOCK, check_lens};
use crate::mask::Visible;
use crate::simd::{Job, Level, Real, Simd};
use crate::{Mask, Rows};

/// Queries in a task: with 256 hidden units, their exponentials take 32 KiB in `f32`, half of a small second-level
/// cache, beside a block of keys.
const TASK_QUERIES: usize = 32;

/// Additive scores to compute, `score[b,n,i,j] = sum_u weight[u] tanh(queries[b,n,i,u] + keys[b,n,j,u])`, and 0 for
/// pairs that the mask hides.
///
/// # Shapes
/// - queries `[batch, heads, queries, units]`, keys `[batch, heads, keys, units]`, weight `[units]`
#[derive(Clone, Copy, Debug)]
pub struct AdditiveScore<'a, E> {
    /// Queries, projected to the hidden units.
    pub queries: Rows<'a, E>,
    /// Keys, projected to the hidden units.
    pub keys: Rows<'a, E>,
    /// The weight of each hidden unit.
    pub weight: &'a [E],
    /// Which keys each query sees.
    pub mask: Mask<'a>,
}

/// Where the gradients of [`AdditiveScore`] are added to; contiguous.
#[derive(Debug)]
pub struct AdditiveGradients<'a, E> {
    /// `[batch, heads, queries, units]`
    pub queries: &'a mut [E],
    /// `[batch, heads, keys, units]`
    pub keys: &'a mut [E],
    /// `[units]`
    pub weight: &'a mut [E],
}

impl<'a, E: Real> AdditiveScore<'a, E> {
    /// # Panics
    /// If the shapes do not fit together.
    pub(crate) fn check(&self) {
        let [batch, heads, _, units] = self.queries.shape();
        let [_, _, num_keys, _] = self.keys.shape();
        let expected = [batch, heads, num_keys, units];
        let found = self.keys.shape();
        assert!(
            found == expected,
            "AdditiveScore: keys expected {expected:?}, got {found:?}"
        );
        assert!(
            self.weight.len() == units,
            "AdditiveScore: weight expected [{units}], got [{}]",
            self.weight.len()
        );
        let [_, _, num_queries, _] = self.queries.shape();
        self.mask.check([batch, heads, num_queries, num_keys]);
    }

    /// Computes the scores.
    ///
    /// # Shapes
    /// - scores `[batch, heads, queries, keys]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, scores: &mut [E]) {
        E::score_forward(self, level, scores);
    }

    /// Adds the gradients of the scores to `gradients`, where `grad` is the gradient of the result. What it holds for
    /// hidden pairs does not matter.
    ///
    /// # Shapes
    /// - grad `[batch, heads, queries, keys]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(&self, level: Level, grad: &[E], gradients: AdditiveGradients<E>) {
        E::score_backward(self, level, grad, gradients);
    }
}

pub(super) fn forward<E: Real>(problem: &AdditiveScore<E>, level: Level, scores: &mut [E]) {
    problem.check();
    let [batch, heads, num_queries, _] = problem.queries.shape();
    let [_, _, num_keys, _] = problem.keys.shape();
    let expected = batch * heads * num_queries * num_keys;
    assert!(
        scores.len() == expected,
        "AdditiveScore: scores expected {expected} numbers, got {}",
        scores.len()
    );
    if expected == 0 {
        return;
    }
    let weights = Weights::new(problem.weight);
    let packed = pack_all(&problem.keys, &problem.mask, num_queries, level);
    // A task: some of the queries of one head.
    let tasks = num_queries.div_ceil(TASK_QUERIES);
    let mut rows: Vec<(usize, usize, &mut [E])> = Vec::with_capacity(batch * heads * tasks);
    for (head, scores) in scores.chunks_mut(num_queries * num_keys).enumerate() {
        let chunks = scores.chunks_mut(TASK_QUERIES * num_keys);
        rows.extend(
            chunks
                .enumerate()
                .map(|(chunk, rows)| (head, chunk * TASK_QUERIES, rows)),
        );
    }
    rows.into_par_iter().for_each(|(head, first, scores)| {
        let packed_len = packed.len() / (batch * heads);
        E::dispatch(
            level,
            Forward {
                problem,
                weights: &weights,
                packed: &packed[head * packed_len..(head + 1) * packed_len],
                at: [head / heads, head % heads],
                queries: first..first + scores.len() / num_keys,
                scores,
            },
        );
    });
}

/// The keys as [`AdditiveScore::forward`] reads them, `[batch, heads, blocks, packed block]`.
pub(super) fn pack_all<E: Real>(
    keys: &Rows<E>,
    mask: &Mask,
    num_queries: usize,
    level: Level,
) -> Vec<E> {
    let [batch, heads, num_keys, units] = keys.shape();
    mask.check([batch, heads, num_queries, num_keys]);
    let blocks = num_keys.div_ceil(BLOCK);
    let mut packed = vec![E::ZERO; batch * heads * blocks * packed_block_len(units)];
    let tasks = packed.par_chunks_mut(packed_block_len(units)).enumerate();
    tasks.with_min_len(4).for_each_init(
        || vec![E::ZERO; BLOCK * units],
        |scratch, (index, to)| {
            let (head, block) = (index / blocks, index % blocks);
            let at = [head / heads, head % heads, block];
            let visible = mask.span(at[0], 0..num_queries, num_keys);
            E::dispatch(
                level,
                Pack {
                    keys,
                    at,
                    visible,
                    scratch,
                    to,
                },
            );
        },
    );
    packed
}

/// Splits the keys of a head in as many parts as there are queries and keys to keep every thread busy. By shape
/// only, so that the sums over keys are the same on every machine.
fn key_parts(heads: usize, num_keys: usize) -> usize {
    8_usize
        .div_ceil(heads)
        .min(num_keys.div_ceil(4 * BLOCK))
        .max(1)
}

pub(super) fn backward<E: Real>(
    problem: &AdditiveScore<E>,
    level: Level,
    grad: &[E],
    gradients: AdditiveGradients<E>,
) {
    problem.check();
    let [batch, heads, num_queries, units] = problem.queries.shape();
    let [_, _, num_keys, _] = problem.keys.shape();
    let heads_in_all = batch * heads;
    let rows = heads_in_all * num_queries;
    let key_numbers = heads_in_all * num_keys * units;
    check_lens(
        "AdditiveScore",
        [
            ("the scores", grad.len(), rows * num_keys),
            ("queries", gradients.queries.len(), rows * units),
            ("keys", gradients.keys.len(), key_numbers),
            ("weight", gradients.weight.len(), units),
        ],
    );
    if grad.is_empty() || units == 0 {
        return;
    }
    let parts = key_parts(heads_in_all, num_keys);
    let part_keys = num_keys.div_ceil(parts).next_multiple_of(BLOCK);
    let mut tasks = Vec::with_capacity(heads_in_all * parts);
    for (head, keys) in gradients.keys.chunks_mut(num_keys * units).enumerate() {
        let keys = keys.chunks_mut(part_keys * units).enumerate();
        tasks.extend(keys.map(|(part, keys)| (head, part, keys)));
    }
    let parts = tasks.len() / heads_in_all;
    // With one part in each head, its queries' gradients go straight to where they belong.
    let query_len = num_queries * units;
    let mut partial_queries = match parts {
        1 => Vec::new(),
        _ => vec![E::ZERO; tasks.len() * query_len],
    };
    let mut partial_weights = vec![E::ZERO; tasks.len() * units];
    let query_slices = match parts {
        1 => gradients.queries.par_chunks_mut(query_len),
        _ => partial_queries.par_chunks_mut(query_len),
    };
    tasks
        .into_par_iter()
        .zip(query_slices)
        .zip(partial_weights.par_chunks_mut(units))
        .for_each(|(((head, part, keys), queries), weight)| {
            let first = part * part_keys;
            let range = first..first + keys.len() / units;
            let gradients = AdditiveGradients {
                queries,
                keys,
                weight,
            };
            let at = [head / heads, head % heads];
            let grad = &grad[head * num_queries * num_keys..][..num_queries * num_keys];
            E::dispatch(
                level,
                Backward {
                    problem,
                    at,
                    range,
                    grad,
                    gradients,
                },
            );
        });
    for partial in partial_weights.chunks_exact(units) {
        add(partial, gradients.weight);
    }
    if parts > 1 {
        let heads = gradients.queries.par_chunks_mut(query_len);
        let partial = partial_queries.par_chunks(parts * query_len);
        heads.zip(partial).for_each(|(to, parts)| {
            for part in parts.chunks_exact(query_len) {
                add(part, to);
            }
        });
    }
}

fn add<E: Real>(from: &[E], to: &mut [E]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
    }
}

/// The gradients from some keys of one head.
struct Backward<'a, 'b, E> {
    problem: &'a AdditiveScore<'a, E>,
    at: [usize; 2],
    /// The keys.
    range: Range<usize>,
    /// `[queries, keys]`
    grad: &'a [E],
    /// Of the queries of the head, of these keys, and of the weight.
    gradients: AdditiveGradients<'b, E>,
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let AdditiveScore {
            queries,
            keys,
            weight,
            mask,
        } = self.problem;
        let [_, _, num_queries, units] = queries.shape();
        let [_, _, num_keys, _] = keys.shape();
        let [batch, head] = self.at;
        // Keys that no query sees are not looked at.
        let span = mask.span(batch, 0..num_queries, num_keys);
        let range = self.range.start.max(span.start)..self.range.end.min(span.end);
        if range.is_empty() {
            return;
        }
        let mut query_side = Side::default();
        query_side.fill_queries(simd, queries, self.at, 0..num_queries);
        let mut key_side = Side::default();
        key_side.fill_keys(simd, keys, self.at, range.clone());
        let grad = &self.grad[range.start..];
        let all = 0..range.len();
        let AdditiveGradients {
            queries: to_queries,
            keys: to_keys,
            weight: to_weight,
        } = self.gradients;
        if mask.is_none() {
            add_gradients(
                simd,
                &mut query_side,
                &mut key_side,
                all,
                grad,
                num_keys,
                to_weight,
            );
        } else {
            let mut visible_grad = vec![E::ZERO; num_queries * range.len()];
            for (query, to) in visible_grad.chunks_exact_mut(range.len()).enumerate() {
                to.copy_from_slice(&grad[query * num_keys..][..range.len()]);
                let visible = mask.visible(batch, head, query, num_keys);
                visible.hide(&range, to, E::ZERO);
            }
            add_gradients(
                simd,
                &mut query_side,
                &mut key_side,
                all,
                &visible_grad,
                range.len(),
                to_weight,
            );
        }
        query_side.add_gradients_to(weight, to_queries);
        let first = (range.start - self.range.start) * units;
        let len = range.len() * units;
        key_side.add_gradients_to(weight, &mut to_keys[first..first + len]);
    }
}

struct Pack<'a, E> {
    keys: &'a Rows<'a, E>,
    at: [usize; 3],
    visible: Range<usize>,
    scratch: &'a mut [E],
    to: &'a mut [E],
}

impl<E: Real> Job<E> for Pack<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        pack_keys(
            simd,
            self.keys,
            self.at,
            &self.visible,
            self.scratch,
            self.to,
        );
    }
}

/// The scores of some queries of one head.
struct Forward<'a, 'b, E> {
    problem: &'a AdditiveScore<'a, E>,
    weights: &'a Weights<E>,
    /// The packed keys of the head.
    packed: &'a [E],
    at: [usize; 2],
    queries: Range<usize>,
    /// `[queries, keys]`
    scores: &'b mut [E],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let [batch, head] = self.at;
        let [_, _, num_keys, units] = self.problem.keys.shape();
        let mut queries = PackedQueries::default();
        let rows = self.queries.clone();
        queries.pack(simd, &self.problem.queries, self.at, rows, self.weights);
        let visible: Vec<Visible> = self
            .queries
            .clone()
            .map(|query| self.problem.mask.visible(batch, head, query, num_keys))
            .collect();
        let masked = !self.problem.mask.is_none();
        let packed_len = packed_block_len(units);
        for (block, packed) in self.packed.chunks_exact(packed_len).enumerate() {
            let first = block * BLOCK;
            let block_keys = first..num_keys.min(first + BLOCK);
            let keys = KeyBlock::new(self.problem.keys, self.at, first, packed);
            let mut query = 0;
            while query < visible.len() {
                let count = queries.tile_len(query);
                let is_hidden = |visible: &Visible| !visible.meets(&block_keys);
                if masked && visible[query..query + count].iter().all(is_hidden) {
                    for row in self
                        .scores
                        .chunks_exact_mut(num_keys)
                        .skip(query)
                        .take(count)
                    {
                        row[block_keys.clone()].fill(E::ZERO);
                    }
                    query += count;
                    continue;
                }
                let target = Target {
                    to: &mut self.scores[query * num_keys + first..],
                    stride: num_keys,
                    width: block_keys.len(),
                    factor: self.weights.factor(),
                };
                tile_scores(simd, self.weights, &queries, query, &keys, target);
                if masked {
                    let rows = self.scores[query * num_keys..].chunks_exact_mut(num_keys);
                    for (row, visible) in rows.zip(&visible[query..query + count]) {
                        visible.hide(&block_keys, &mut row[block_keys.clone()], E::ZERO);
                    }
                }
                query += count;
            }
        }
    }
}
